"""ShardModel: the rows of one shard of a version, which may change while others read them."""

import logging
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Self

from torch import Tensor

from monolith._core import native
from monolith.delta import DeltaPart, TakenPart
from monolith.embedding import MultiTable
from monolith.embedding.hash_shards import check_shard
from monolith.embedding.shard_files import fill_from_one_shard
from monolith.errors import CorruptFileError, NotFiniteError, shown
from monolith.export.description import Description
from monolith.export.load import plan_of, table_configs
from monolith.export.signature import Array
from monolith.export.versions import MODEL_FILE, TABLES_FOLDER, version_paths

_log = logging.getLogger(__name__)


class ShardModel:
    """The tables of one shard; deltas bring rows while table servers read them."""

    def __init__(self, description: Description, shard: int, tables: MultiTable) -> None:
        """Take tables with the rows of the version's files."""
        self.description = description
        self.name, self.version = description.name, description.version
        self.plan_hash, self.generation = description.plan_hash, description.generation
        self.shard, self.num_shards = shard, len(description.shards)
        self.tables = tables
        self.sequence, self.created = description.sequence, description.created
        self.parts: dict[DeltaPart, int] = description.parts

    def as_version(self, number: int) -> Self:
        """Return the same tables under another version number."""
        other = copy(self)
        other.version = number
        return other

    @property
    def takes(self) -> TakenPart:
        """What deltas bring: the rows of the shard."""
        return TakenPart((self.shard, self.num_shards), dense=False)

    @property
    def dense_weights(self) -> Mapping[str, Array]:
        """None: the entry has them."""
        return {}

    def apply_rows(self, table: str, ids: Tensor, rows: Tensor) -> None:
        """Overwrite rows, or add them; each row changes at once."""
        self.tables.assign({table: (ids, rows)})

    def erase_rows(self, table: str, ids: Tensor) -> None:
        """Remove rows; ids without one are passed over."""
        self.tables[table].erase(ids)

    def swap_dense(self, weights: Mapping[str, Array]) -> None:
        """Do nothing: the entry has the dense weights."""


def load_newest_shard(base: str | Path, shard: int) -> ShardModel:
    """Return one shard of the newest version of which it is whole.

    Raises:
        FileNotFoundError: there is no complete version.
        CorruptFileError: all are damaged; the message is that of the newest.
        ValueError: the newest version has no such shard.
    """
    failures: list[CorruptFileError] = []
    for path in version_paths(base):
        try:
            model = load_shard(path, shard)
        except CorruptFileError as error:
            failures.append(error)
            continue
        for failure in failures:
            _log.warning("shard %d of version %d is served in place of a newer one: %s", shard, model.version, failure)
        return model
    raise failures[0]


def load_shard(path: str | Path, shard: int) -> ShardModel:
    """Return one shard of the version in a folder, after comparing its files with their checksums.

    Raises:
        CorruptFileError: a file of the shard is missing or damaged; the message names it.
        ValueError: the version has no such shard.
    """
    folder = Path(path)
    description = Description.read(folder)
    count = len(description.shards)
    if not count:
        raise ValueError(
            f"{folder} is one folder with all rows, and has no shards; serve it with `monolith serve`, or export with "
            "--export-mode distributed"
        )
    check_shard((shard, count))
    part = description.check_shard(folder, shard)
    try:
        place = (shard, count)
        tables = MultiTable(table_configs(folder, description, plan_of(folder, description)), shard=place)
        for name, wanted in description.shards[shard].num_rows.items():
            table = tables[name]
            file = native.shard_file_name(str(part / TABLES_FOLDER / name), shard, count)
            found = fill_from_one_shard(table.native, table.schema(), file, place)
            if found != wanted:
                raise CorruptFileError(f"{file} has {found} rows, {folder / MODEL_FILE} says {wanted}")
        return ShardModel(description, shard, tables)
    except CorruptFileError:
        raise
    except NotFiniteError as error:
        raise CorruptFileError(f"{folder} cannot be served, export the model again: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        reason = f"{type(error).__name__}: {shown(str(error), 300)}"
        raise CorruptFileError(f"{folder / MODEL_FILE} describes no shard that can be served: {reason}") from error
