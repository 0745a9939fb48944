"""The files of one table: which belong together, and whether all are there."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from monolith._core import native
from monolith._core.native import NotFinite as NotFinite
from monolith.embedding.hash_shards import MAX_SHARDS, WHOLE, HashShard, check_num_shards, check_shard
from monolith.errors import CorruptFileError, NotFiniteError, TableFullError

_log = logging.getLogger(__name__)

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")


def default_num_shards(num_rows: int) -> int:
    """Return how many files a table of this size is written to: one per million rows, 1 to 4.

    >>> [default_num_shards(rows) for rows in (0, 1_500_000, 9_000_000)]
    [1, 1, 4]
    """
    return min(4, max(1, num_rows // 1_000_000))


def find_shard_files(basename: str) -> list[str]:
    """Return the paths of all shards saved under `basename`, in order; files of other names are ignored.

    Raises FileNotFoundError if there are none, and ValueError if some are missing or of another count.
    """
    base = Path(basename)
    found: dict[int, str] = {}
    counts: set[int] = set()
    for path in sorted(base.parent.glob(f"{glob_escape(base.name)}-*")):
        match = _SHARD.search(path.name)
        if match is None or path.name[: match.start()] != base.name:
            continue
        shard, count = int(match[1]), int(match[2])
        counts.add(count)
        if shard >= count:
            raise ValueError(f"shard {shard} exceeds {count} for {path}")
        found[shard] = str(path)
    if not found:
        raise FileNotFoundError(f"there is no shard file for {basename}; looked for {basename}-00000-of-*")
    if len(counts) > 1:
        raise ValueError(f"{basename} has shards of several saves: counts {sorted(counts)}; remove the stale ones")
    missing = sorted(set(range(*counts)) - set(found))
    if missing:
        raise ValueError(f"shard {missing[0]} doesn't show up for {basename}: {len(found)} of {counts.pop()} are there")
    return [found[shard] for shard in sorted(found)]


def shard_basename(path: str) -> str:
    """Return the basename that a shard file was saved under; an empty one for other files.

    >>> shard_basename("tables/movie-00001-of-00004"), shard_basename("tables/notes.txt")
    ('tables/movie', '')
    """
    match = _SHARD.search(path)
    return "" if match is None else path[: match.start()]


class FrozenTable:
    """A table as it was at one moment, to be saved while the table goes on changing; `Table.freeze` makes one."""

    def __init__(self, name: str, schema: str, num_rows: int, frozen: native.FrozenTable) -> None:
        """Take what the native table froze."""
        self._name = name
        self._schema = schema
        self._num_rows = num_rows
        self._frozen = frozen

    @property
    def overflowed(self) -> bool:
        """Whether there were too many changes to list: only the whole table will do."""
        return self._frozen.overflowed

    def save(
        self,
        basename: str | PathLike[str],
        *,
        num_shards: int | None = None,
        plan_hash: int = 0,
        generation: int = 0,
        epoch: int = 0,
        drop_expired: bool = True,
        in_parallel: bool = True,
    ) -> dict[str, int]:
        """Write `<basename>-00000-of-0000n`, on one core unless `in_parallel`; returns each path with its CRC-32C.

        The table is not frozen any more then.
        """
        num_shards = self._checked(num_shards)
        saved = self._frozen.save(
            fspath(basename), num_shards, self._schema, plan_hash, generation, epoch, drop_expired, in_parallel
        )
        return _checksums(basename, saved)

    def save_shard(
        self,
        basename: str | PathLike[str],
        shard: HashShard,
        *,
        plan_hash: int = 0,
        generation: int = 0,
        epoch: int = 0,
    ) -> dict[str, int]:
        """Write the file of one shard, of a table that holds the rows of this shard only.

        Returns its path with its CRC-32C. Rows that have expired are written too.

        Raises:
            ValueError: The table has rows of another shard.
        """
        check_shard(shard)
        saved = self._frozen.save_shard(fspath(basename), *shard, self._schema, plan_hash, generation, epoch)
        return {native.shard_file_name(fspath(basename), *shard): saved.checksums[0]}

    def save_changes(
        self,
        basename: str | PathLike[str],
        shard: HashShard = WHOLE,
        *,
        plan_hash: int = 0,
        generation: int = 0,
        epoch: int = 0,
    ) -> tuple[dict[str, int], Tensor]:
        """Write changed rows to one file; returns its path with its CRC-32C, and the changed ids that have no row.

        With a `shard`, it is the file of this shard, of a table that holds no other rows.
        """
        check_shard(shard)
        saved, erased = self._frozen.save_changes(fspath(basename), *shard, self._schema, plan_hash, generation, epoch)
        return {native.shard_file_name(fspath(basename), *shard): saved.checksums[0]}, torch.from_numpy(erased)

    def close(self) -> None:
        """Let go of it without saving; nothing happens if it was saved."""
        self._frozen.close()

    def _checked(self, num_shards: int | None) -> int:
        if num_shards is None:
            return default_num_shards(self._num_rows)
        if not 1 <= num_shards <= MAX_SHARDS:
            raise ValueError(f"table {self._name!r}: num_shards must be 1 to {MAX_SHARDS}, got {num_shards}")
        return num_shards


def _checksums(basename: str | PathLike[str], saved: native.SavedTable) -> dict[str, int]:
    count = len(saved.checksums)
    names = [native.shard_file_name(fspath(basename), shard, count) for shard in range(count)]
    return dict(zip(names, saved.checksums, strict=True))


def reshard_files(
    basename: str | PathLike[str],
    out: str | PathLike[str],
    num_shards: int,
    checksums: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Write the table saved under `basename` as `num_shards` files under `out`; returns each path with its CRC-32C.

    Rows are copied bucket by bucket, no table is made; from N files to M and back to N gives the same bytes. Files of
    an older format become files of today's. With `checksums`, each file that is read has to have the one under its
    path; what was written is of no use otherwise.

    Raises:
        FileNotFoundError: There are no files.
        CorruptFileError: A file is damaged, or the files are not of one save.
        ValueError: A shard is missing, or `num_shards` is not 1 to 65,536.
    """
    check_num_shards(num_shards)
    paths = find_shard_files(fspath(basename))
    with _errors_of_files():
        _check_one_save(paths, [native.read_table_file_info(path) for path in paths])
        resharded = native.reshard_table(paths, fspath(out), num_shards)
    _check_checksums(paths, resharded.read, checksums)
    return _checksums(out, resharded.written)


def check_shard_files(
    table: native.RowTable,
    schema: str,
    paths: Sequence[str],
    *,
    cleared: bool,
    not_finite: NotFinite = NotFinite.REFUSE,
    shard: HashShard = WHOLE,
) -> None:
    """Raise unless the files are whole, of one save, and hold rows such as the table's, for which it has room.

    `schema` is what the table says of itself in files; `cleared` tells that its own rows will make room first. Rows
    that are not finite are a NotFiniteError unless they are to be dropped or kept. With a `shard`, only the parts of
    files that hold rows of it are read, and only its rows need room.
    """
    with _errors_of_files():
        _check_kind(schema, paths)
        native.check_table_files(table, list(paths), cleared, not_finite, *shard)


def load_shard_files(
    table: native.RowTable,
    paths: Sequence[str],
    shard: HashShard = WHOLE,
    *,
    not_finite: NotFinite = NotFinite.REFUSE,
) -> native.SavedTable:
    """Add the rows of checked files to a table, those of one shard; returns how many, and how many were dropped.

    The files may be of any other number of shards: only the parts that hold rows of this one are read.
    """
    with _errors_of_files():
        loaded = native.load_table(table, list(paths), not_finite, *shard)
    if loaded.num_dropped:
        _log.warning(
            "%s: %d rows were not finite and were dropped; their ids have no row now",
            shard_basename(paths[0]),
            loaded.num_dropped,
        )
    return loaded


def not_finite_rows(drop: bool) -> NotFinite:
    """Return what `drop_not_finite` means for the files of a table."""
    return NotFinite.DROP if drop else NotFinite.REFUSE


def fill_from_shard_files(
    table: native.RowTable,
    schema: str,
    paths: Sequence[str],
    checksums: Mapping[str, int] | None = None,
    *,
    not_finite: NotFinite = NotFinite.REFUSE,
) -> int:
    """Load the files into a table without rows, each of their bytes read once; returns the number of rows.

    With `checksums`, each file has to have the one under its path. The table is empty again after any error.
    """
    with _errors_of_files():
        _check_kind(schema, paths)
        return _fill(table, paths, checksums, not_finite)


def fill_from_one_shard(table: native.RowTable, schema: str, path: str, shard: HashShard) -> int:
    """Load the file of one shard into a table without rows; returns the number of rows.

    The table is empty again after any error.
    """
    check_shard(shard)
    with _errors_of_files():
        info = native.read_table_file_info(path)
        if (info.shard, info.num_shards) != shard:
            raise CorruptFileError(f"{path} says it is shard {info.shard} of {info.num_shards}, not {shard}")
        _check_same_rows(path, _schema_of(path, info), schema)
        return _fill(table, [path], None, NotFinite.REFUSE, shard)


def _fill(
    table: native.RowTable,
    paths: Sequence[str],
    checksums: Mapping[str, int] | None,
    not_finite: NotFinite,
    shard: HashShard = WHOLE,
) -> int:
    native.check_table_fits(table, list(paths), True)
    table.clear()
    try:
        loaded = load_shard_files(table, paths, shard, not_finite=not_finite)
        _check_checksums(paths, loaded, checksums)
    except BaseException:
        table.clear()
        raise
    return loaded.num_rows


@contextmanager
def _errors_of_files() -> Iterator[None]:
    try:
        yield
    except native.CorruptFile as error:
        raise CorruptFileError(str(error)) from error
    except native.TableFull as error:
        raise TableFullError(str(error)) from error
    except native.NotFiniteRow as error:
        raise NotFiniteError(str(error)) from error


def _check_checksums(paths: Sequence[str], read: native.SavedTable, checksums: Mapping[str, int] | None) -> None:
    for path, crc32c in zip(paths, read.checksums, strict=True):
        if checksums is not None and checksums.get(path) != crc32c:
            raise CorruptFileError(f"{path} is damaged: its checksum is not the one in its manifest")


def _check_kind(schema: str, paths: Sequence[str]) -> None:
    infos = [native.read_table_file_info(path) for path in paths]
    _check_one_save(paths, infos)
    _check_same_rows(paths[0], _schema_of(paths[0], infos[0]), schema)


def _check_one_save(paths: Sequence[str], infos: Sequence[native.TableFileInfo]) -> None:
    def save_of(path: str, info: native.TableFileInfo) -> tuple[object, ...]:
        return info.plan_hash, info.generation, info.epoch, info.max_time, info.max_step, _schema_of(path, info)

    for shard, (path, info) in enumerate(zip(paths, infos, strict=True)):
        if (info.shard, info.num_shards) != (shard, len(paths)):
            raise CorruptFileError(
                f"{path} says it is shard {info.shard} of {info.num_shards}, not {shard} of {len(paths)}: it was "
                "renamed; give it back its name"
            )
        if save_of(path, info) != save_of(paths[0], infos[0]):
            raise CorruptFileError(f"{path} and {paths[0]} are not of one save; restore both from the same checkpoint")


def _schema_of(path: str, info: native.TableFileInfo) -> str:
    try:
        return str(info.schema)
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path}: its schema is not text: {error}") from error


def _check_same_rows(path: str, saved: str, wanted: str) -> None:
    """Rows of another make may have the same number of bytes; read as the table's they would be noise."""
    saved_rows, wanted_rows = _row_parts(path, saved), _row_parts("the table", wanted)
    if saved_rows != wanted_rows:
        raise ValueError(
            f"{path} has rows of {saved_rows}, the table has {wanted_rows}; restore it with the configuration it was "
            "saved with"
        )


def _row_parts(owner: str, schema: str) -> list[str]:
    try:
        parts: dict[str, Any] = json.loads(schema)
        how = "compressor" if parts["serving"] else "optimizer"
        return [f"{segment['dim']} x {segment[how]}" for segment in parts["segments"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError(f"{owner}: its schema cannot be read: {error!r}") from error


def glob_escape(name: str) -> str:
    """Return the name with glob's special characters taken literally."""
    return re.sub(r"([*?\[])", r"[\1]", name)
