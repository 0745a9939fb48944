"""The rows and filters of one moment, on their way to the files of a snapshot or delta."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from monolith.checkpoint.format.layout import ERASED_NAME, FILTER_CHANGES_SUFFIX, FILTERS_NAME, TABLES_NAME
from monolith.checkpoint.format.tensor_file import save_tensors
from monolith.embedding import ChangeTracker, MultiTable
from monolith.embedding.hash_shards import WHOLE
from monolith.model import admission_filters


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveMarks:
    """What every table file of one save says."""

    plan_hash: int
    generation: int
    epoch: int

    def for_tables(self) -> dict[str, int]:
        """Return the marks as the arguments of a table's save."""
        return {"plan_hash": self.plan_hash, "generation": self.generation, "epoch": self.epoch}


@dataclass(frozen=True, slots=True)
class Gathered:
    """What came with the rows and belongs elsewhere in a snapshot."""

    dense: dict[str, Tensor] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


class FrozenRows(Protocol):
    """Rows and filters of one moment, in this process or in others; written once, or closed."""

    @property
    def overflowed(self) -> bool:
        """Whether there were too many changes to list: only all rows will do."""
        ...

    def write(self, folder: Path, marks: SaveMarks, *, num_shards: int | None, in_parallel: bool) -> dict[str, int]:
        """Write all rows and filters; return the paths of table files with their CRC-32C."""
        ...

    def write_changes(self, folder: Path, marks: SaveMarks) -> dict[str, int]:
        """Write changed rows, the ids of erased ones, and filters or their changes; return as `write` does."""
        ...

    def gather(self, folder: Path) -> Gathered:
        """Return what came with the rows, after they were written; its files are gone then."""
        ...

    def close(self) -> None:
        """Let go of it; nothing happens if it was written or closed before."""
        ...


class FrozenTables:
    """The tables of this process and their filters, frozen: `FrozenRows`."""

    def __init__(self, tables: MultiTable, trackers: Mapping[str, ChangeTracker] | None) -> None:
        """Freeze them; with `trackers`, by table, changes are taken at the same moment, those of filters too."""
        self._filters = admission_filters(tables)
        self._changed_filters: set[str] = set()
        with ExitStack() as undo:
            self._tables = {}
            for name, table in tables.tables.items():
                self._tables[name] = table.freeze(trackers[name] if trackers else None)
                undo.callback(self._tables[name].close)
            for name, admission in self._filters.items():
                if admission.freeze(take_changes=trackers is not None):
                    self._changed_filters.add(name)
                undo.callback(admission.drop_frozen)
            self._ends = undo.pop_all()

    @property
    def overflowed(self) -> bool:
        """Whether a table had too many changes to list."""
        return any(table.overflowed for table in self._tables.values())

    def write(self, folder: Path, marks: SaveMarks, *, num_shards: int | None, in_parallel: bool) -> dict[str, int]:
        """Write all rows, expired ones too, and filters."""
        written: dict[str, int] = {}
        # Tables first: as long as they are frozen, training has to set rows aside.
        for name, table in self._tables.items():
            written |= table.save(
                folder / TABLES_NAME / name,
                num_shards=num_shards,
                drop_expired=False,
                in_parallel=in_parallel,
                **marks.for_tables(),
            )
        for name, admission in self._filters.items():
            admission.save_frozen(folder / FILTERS_NAME / name)
        return written

    def write_changes(self, folder: Path, marks: SaveMarks) -> dict[str, int]:
        """Write what changed."""
        written: dict[str, int] = {}
        erased: dict[str, Tensor] = {}
        for name, table in self._tables.items():
            paths, erased[name] = table.save_changes(folder / TABLES_NAME / name, WHOLE, **marks.for_tables())
            written |= paths
        save_tensors(erased, folder / ERASED_NAME)
        for name, admission in self._filters.items():
            if name in self._changed_filters:
                admission.save_frozen_changes(folder / FILTERS_NAME / f"{name}{FILTER_CHANGES_SUFFIX}")
            else:
                admission.save_frozen(folder / FILTERS_NAME / name)
        return written

    def gather(self, folder: Path) -> Gathered:
        """Return nothing: dense tensors are elsewhere."""
        return Gathered()

    def close(self) -> None:
        """Let go of tables and filters that were not written."""
        self._ends.close()
