"""The rows of one saved table, a part at a time: memory does not depend on how many there are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from monolith._core import native
from monolith.checkpoint.format.delta_chain import chain_to, check_chain, read_erased
from monolith.checkpoint.format.layout import TABLES_NAME
from monolith.checkpoint.format.manifest import Manifest
from monolith.embedding import Table, TableConfig
from monolith.embedding.shard_files import NotFinite, check_shard_files, find_shard_files, load_shard_files
from monolith.errors import CorruptFileError

NUM_PARTS = 32
"""Ids are divided into this many parts: two saves have the same ids in the same part."""

_SUB_TABLES = native.NUM_SUB_TABLES // NUM_PARTS


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table, by ascending id."""

    ids: NDArray[np.int64]
    """Ids."""

    last_seen: NDArray[np.uint32]
    """Time of the last update of each, in seconds."""

    weights: NDArray[np.float32]
    """One row of weights each."""

    stored: NDArray[np.uint8]
    """All bytes of each row, weights and optimizer state."""


class TableFiles:
    """The files of one saved table, checked, with those of deltas on it."""

    def __init__(
        self,
        basename: str | PathLike[str],
        config: TableConfig,
        deltas: Sequence[tuple[str | PathLike[str], Tensor | None]] = (),
    ) -> None:
        """Check every byte of the files, and that their rows are made as `config` says.

        Of each of the `deltas`, in order, there are the basename of its files, and the ids that it takes the rows of.

        Raises:
            FileNotFoundError: There are no files.
            CorruptFileError, ValueError: They are damaged, incomplete, or of another make.
        """
        self.links = [(find_shard_files(fspath(name)), erased) for name, erased in ((basename, None), *deltas)]
        self.infos = [read_info(path) for path in self.links[0][0]]
        # Before a table is made: what a hostile configuration asks for must not be allocated.
        for path, info in ((path, read_info(path)) for paths, _ in self.links for path in paths):
            if info.weight_bytes != 4 * config.dim or info.serving:
                raise ValueError(
                    f"{path} has rows of {info.weight_bytes} bytes, table {config.name!r} has {config.dim} floats"
                )
        plain = replace(config, initial_capacity=1, max_memory_bytes=None, evict_every_hours=0, serving=False)
        self._table = Table(plain)
        self._weight_bytes = 4 * config.dim
        for paths, _ in self.links:
            # Rows that are not finite are there to be looked at.
            check_shard_files(self._table.native, self._table.schema(), paths, cleared=True, not_finite=NotFinite.KEEP)

    @property
    def num_rows(self) -> int:
        """Rows of the table; with deltas, they have to be read for that."""
        if len(self.links) == 1:
            return sum(info.num_rows for info in self.infos)
        return sum(len(part.ids) for part in self.parts())

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, weights and optimizer state."""
        return self.infos[0].weight_bytes + self.infos[0].state_bytes

    def parts(self) -> Iterator[Rows]:
        """Yield all rows in `NUM_PARTS` parts, some of them perhaps empty."""
        for part in range(NUM_PARTS):
            self._table.clear()
            for paths, erased in self.links:
                if erased is not None:
                    self._table.erase(erased)
                load_shard_files(self._table.native, paths, (part, NUM_PARTS), not_finite=NotFinite.KEEP)
            read = [self._table.native.read_rows(part * _SUB_TABLES + offset) for offset in range(_SUB_TABLES)]
            ids, last_seen, stored = (np.concatenate(arrays) for arrays in zip(*read, strict=True))
            order = np.argsort(ids)
            stored = np.ascontiguousarray(stored[order])
            weights = np.ascontiguousarray(stored[:, : self._weight_bytes]).view(np.float32)
            yield Rows(ids[order], last_seen[order], weights, stored)
        self._table.clear()


def table_files(folder: Path, name: str, config: TableConfig) -> TableFiles:
    """Return the files of a table of a checked snapshot, or of a delta with all that it builds on."""
    base, *deltas = chain_to(folder)
    changes = [(link / TABLES_NAME / name, read_erased(link).get(name)) for link in deltas]
    return TableFiles(base / TABLES_NAME / name, config, changes)


def checked_manifest(folder: Path) -> Manifest:
    """Return the manifest of a snapshot or delta after checking every file of it and of what it builds on."""
    return check_chain(chain_to(folder))[-1]


def read_info(path: str) -> native.TableFileInfo:
    """Return what a table file says of itself; a damaged one is a CorruptFileError."""
    try:
        return native.read_table_file_info(path)
    except native.CorruptFile as error:
        raise CorruptFileError(str(error)) from error
