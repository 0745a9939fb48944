"""Many tables behind one call."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from typing import Self

import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding.admission import AdmissionFilter
from monolith.embedding.config.instance import HashTableConfigInstance
from monolith.embedding.config.merging import merge_tables
from monolith.embedding.config.table import TableConfig
from monolith.embedding.hash_shards import WHOLE, HashShard
from monolith.embedding.shard_files import NotFinite, check_shard_files, find_shard_files, load_shard_files
from monolith.embedding.table import NO_TIME, Table
from monolith.embedding.tensor_checks import (
    check_out,
    check_seconds,
    concatenate_ids,
    concatenate_values,
    detached_floats,
    flat_ids,
)
from monolith.tensors.recycled_bytes import RecycledBytes


class MultiBatchPlan:
    """One batch of ids for many tables, deduplicated once per table, used forward and backward."""

    def __init__(self, tables: "MultiTable", ids: Tensor, sizes: Sequence[int], *, dedup: bool = True) -> None:
        """Group `ids`, `sizes[t]` of them for table t."""
        self._tables = tables
        self._sizes = list(sizes)
        self._plan = native.MultiBatchPlan(tables.natives, flat_ids(ids), self._sizes, dedup)

    @property
    def num_ids(self) -> int:
        """Ids in the batch, repeated ones counted."""
        return self._plan.num_ids

    @property
    def num_unique(self) -> int:
        """Different ids in the batch, table by table."""
        return self._plan.num_unique

    def lookup(self, out: Tensor | None = None) -> Tensor:
        """Return the rows of all ids as one flat tensor, table after table; `split` cuts it."""
        out = self._tables.memory.floats(self._plan.num_floats) if out is None else out
        self._plan.lookup(check_out(out, num_dims=1))
        return out

    def split(self, flat: Tensor) -> list[Tensor]:
        """Return one [ids, dim] view per table of a tensor laid out like `lookup`'s."""
        dims = [table.dim for table in self._tables.tables.values()]
        parts = torch.split(flat, [size * dim for size, dim in zip(self._sizes, dims, strict=True)])
        return [part.view(size, dim) for part, size, dim in zip(parts, self._sizes, dims, strict=True)]

    def assign(self, values: Tensor, *, time: int = NO_TIME) -> native.ChangeResult:
        """Overwrite rows with values laid out like `lookup`'s."""
        return self._plan.change(native.ChangeKind.ASSIGN, self._flat(values, "values"), check_seconds("time", time))

    def assign_add(self, values: Tensor, *, time: int = NO_TIME) -> native.ChangeResult:
        """Add values laid out like `lookup`'s to rows."""
        return self._plan.change(native.ChangeKind.ADD, self._flat(values, "values"), check_seconds("time", time))

    def apply_gradients(
        self, gradients: Tensor, *, global_step: int = 0, time: int = NO_TIME, sum_repeated: bool = True
    ) -> native.ChangeResult:
        """Step every table's optimizer with gradients laid out like `lookup`'s; see `Table.apply_gradients`."""
        rates = [
            rate for table in self._tables.tables.values() for rate in table.config.learning_rate_values(global_step)
        ]
        gradients = self._flat(gradients, "gradients")
        return self._plan.step(gradients, rates, global_step, check_seconds("time", time), sum_repeated)

    def _flat(self, values: Tensor, what: str) -> Tensor:
        if values.shape != (self._plan.num_floats,):
            raise ValueError(
                f"{what} must be one flat tensor of {self._plan.num_floats} floats, laid out like lookup's, got shape "
                f"{tuple(values.shape)}"
            )
        return detached_floats(values, what)


class MultiTable:
    """Named tables with one call for all: ids of the first table, then of the second, in order of name.

    >>> from monolith.embedding import Segment, SgdOptimizer, TableConfig
    >>> def config(name, dim):
    ...     return TableConfig(name=name, segments=(Segment(dim, SgdOptimizer(learning_rate=1.0)),))
    >>> tables = MultiTable({"user": config("user", 2), "item": config("item", 1)})
    >>> tables.assign_add({"user": (torch.tensor([7]), torch.tensor([[1.0, 2.0]]))}).inserted
    1
    >>> tables.lookup({"item": torch.tensor([3]), "user": torch.tensor([7])})
    {'item': tensor([[0.]]), 'user': tensor([[1., 2.]])}
    """

    def __init__(
        self,
        configs: Mapping[str, TableConfig],
        *,
        admission: AdmissionFilter | None = None,
        shard: HashShard = WHOLE,
    ) -> None:
        """Make empty tables, for the ids of a shard; they stand in order of name, whatever the mapping's order."""
        self.tables = {name: Table(configs[name], admission=admission, shard=shard) for name in sorted(configs)}
        self.natives = [table.native for table in self.tables.values()]
        self.memory = RecycledBytes()
        """Where rows of batches are written."""

    @classmethod
    def merged(
        cls, features: Mapping[str, HashTableConfigInstance], *, admission: AdmissionFilter | None = None
    ) -> tuple[Self, dict[str, str]]:
        """Let features of equal configuration share a table; returns the tables and feature -> table name."""
        groups = merge_tables(features)
        tables = cls({group.name: group.config.as_table_config(group.name) for group in groups}, admission=admission)
        return tables, {feature: group.name for group in groups for feature in group.features}

    @property
    def names(self) -> list[str]:
        """Names of the tables, in order."""
        return list(self.tables)

    def __getitem__(self, name: str) -> Table:
        """Return one table; an unknown name is a KeyError that lists the known ones."""
        if name not in self.tables:
            raise KeyError(f"there is no table {name!r}; the tables are {', '.join(self.tables)}")
        return self.tables[name]

    def plan(self, ids: Tensor, sizes: Sequence[int], *, dedup: bool = True) -> MultiBatchPlan:
        """Return the plan of a batch: `ids` flattened in table order, `sizes[t]` of them for table t."""
        return MultiBatchPlan(self, ids, sizes, dedup=dedup)

    def lookup(self, ids: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return one row per id for every table named; unknown ids read as zero."""
        plan = self._plan(ids)
        parts = dict(zip(self.tables, plan.split(plan.lookup()), strict=True))
        return {name: parts[name] for name in ids}

    def assign(self, rows: Mapping[str, tuple[Tensor, Tensor]], *, time: int = NO_TIME) -> native.ChangeResult:
        """Overwrite rows: table name -> (ids, values)."""
        return self._plan({name: ids for name, (ids, _) in rows.items()}).assign(self._flat_values(rows), time=time)

    def assign_add(self, rows: Mapping[str, tuple[Tensor, Tensor]], *, time: int = NO_TIME) -> native.ChangeResult:
        """Add to rows: table name -> (ids, values)."""
        return self._plan({name: ids for name, (ids, _) in rows.items()}).assign_add(self._flat_values(rows), time=time)

    def apply_gradients(
        self, rows: Mapping[str, tuple[Tensor, Tensor]], *, global_step: int = 0, time: int = NO_TIME
    ) -> native.ChangeResult:
        """Step the optimizers: table name -> (ids, gradients); gradients of a repeated id are summed."""
        plan = self._plan({name: ids for name, (ids, _) in rows.items()})
        return plan.apply_gradients(self._flat_values(rows), global_step=global_step, time=time)

    def forget(self, ids: Mapping[str, Collection[int]]) -> dict[str, dict[str, list[int]]]:
        """Remove rows and counts of ids by table; return the ids that had "rows", and "counts", by table.

        Tables that are not here are passed over.
        """
        found: dict[str, dict[str, list[int]]] = {"rows": {}, "counts": {}}
        for name, these in ids.items():
            if name in self.tables:
                rows, counts = self.tables[name].forget(torch.tensor(sorted(these), dtype=torch.int64))
                found["rows"][name], found["counts"][name] = rows.tolist(), counts.tolist()
        return found

    def reinitialize(self, name: str, ids: Tensor, *, time: int) -> Tensor:
        """Give ids of one table a fresh row, see `Table.reinitialize`; an unknown table gives -1 for all."""
        if name not in self.tables:
            return torch.full((ids.numel(),), -1, dtype=torch.int32)
        return self.tables[name].reinitialize(ids, time=time)

    def save(self, basename: str | PathLike[str], *, num_shards: int | None = None) -> None:
        """Write every table to `<basename>.<table name>-…` files."""
        for name, table in self.tables.items():
            table.save(f"{fspath(basename)}.{name}", num_shards=num_shards)

    def restore(self, basename: str | PathLike[str], *, not_finite: NotFinite = NotFinite.REFUSE) -> list[str]:
        """Add what was saved under `basename` to the tables; returns the names of tables that had no files.

        A table without files of its own name takes those of the first of its `extra_restore_names` that has some.
        Tables of the files that are not among these are left alone, and nothing is cleared first. All files are checked
        before the first row is read: on any error the tables stay as they were. A row that is not finite is a
        NotFiniteError; with `NotFinite.DROP` it is left out.
        """
        found = {name: paths for name in self.tables if (paths := self._shard_files(basename, name))}
        if not found:
            raise FileNotFoundError(
                f"there are no files of any table for {fspath(basename)}; looked for {fspath(basename)}."
                f"{next(iter(self.tables))}-00000-of-* and so on"
            )
        for name, paths in found.items():
            table = self.tables[name]
            check_shard_files(table.native, table.schema(), paths, cleared=False, not_finite=not_finite)
        for name, paths in found.items():
            load_shard_files(self.tables[name].native, paths, not_finite=not_finite)
        return [name for name in self.tables if name not in found]

    def _shard_files(self, basename: str | PathLike[str], name: str) -> list[str]:
        for one in (name, *self.tables[name].config.extra_restore_names):
            with suppress(FileNotFoundError):
                return find_shard_files(f"{fspath(basename)}.{one}")
        return []

    def _plan(self, ids: Mapping[str, Tensor]) -> MultiBatchPlan:
        for name in ids:
            self[name]
        none = torch.empty(0, dtype=torch.int64)
        flat, sizes = concatenate_ids([ids.get(name, none) for name in self.tables])
        return self.plan(flat, sizes)

    def _flat_values(self, rows: Mapping[str, tuple[Tensor, Tensor]]) -> Tensor:
        return concatenate_values(rows, {name: table.dim for name, table in self.tables.items()})
