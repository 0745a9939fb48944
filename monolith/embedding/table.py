"""A table: rows of floats, addressed by 64-bit id, each with its optimizer's state."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike, fspath

import numpy as np
import torch
from torch import Tensor

from monolith._core import native
from monolith.closing import Closing
from monolith.embedding.admission import AdmissionFilter
from monolith.embedding.config.entry_dump import entry_bytes
from monolith.embedding.config.native_options import make_native_table
from monolith.embedding.config.table import TableConfig
from monolith.embedding.hash_shards import WHOLE, HashShard, check_shard, shards_of_ids
from monolith.embedding.shard_files import (
    FrozenTable,
    NotFinite,
    check_shard_files,
    fill_from_shard_files,
    find_shard_files,
    load_shard_files,
)
from monolith.embedding.tensor_checks import check_out, check_seconds, float_rows
from monolith.embedding.tensor_checks import flat_ids as flat_ids

NO_TIME = 0
"""The last-seen time of rows whose updates name none."""

MAX_TRACKED_CHANGES = 1 << 26
"""Changes a tracker lists unless told otherwise; they take 12 bytes each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableMemory:
    """What a table takes, in bytes."""

    bytes_total: int
    """Everything: rows, index, bookkeeping."""

    bytes_payload: int
    """Weights and optimizer state of the rows there are."""

    bytes_per_million_ids: int
    """What a million more ids will take, at the present overhead per row."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a consumer of a table has not seen yet."""

    touched: Tensor
    """Ids whose row changed or is new."""

    erased: Tensor
    """Ids whose row is gone (tombstones)."""

    overflowed: bool = False
    """There were too many to list: take the whole table."""


class BatchPlan:
    """One batch of ids for one table, deduplicated once, used forward and backward."""

    def __init__(self, table: "Table", ids: Tensor, *, dedup: bool = True) -> None:
        """Group the ids; without `dedup`, every occurrence stands for itself."""
        self._table = table
        self._plan = native.BatchPlan(table.native, flat_ids(ids), dedup)

    @property
    def num_ids(self) -> int:
        """Ids in the batch, repeated ones counted."""
        return self._plan.num_ids

    @property
    def num_unique(self) -> int:
        """Different ids in the batch."""
        return self._plan.num_unique

    @property
    def unique_ids(self) -> Tensor:
        """Each id once, in the plan's order (by hash, then first occurrence)."""
        ids = torch.empty(self.num_unique, dtype=torch.int64)
        self._plan.write_ids(ids)
        return ids

    @property
    def inverse(self) -> Tensor:
        """For every id of the batch its place in `unique_ids` (int32)."""
        inverse = torch.empty(self.num_ids, dtype=torch.int32)
        self._plan.write_inverse(inverse)
        return inverse

    @property
    def counts(self) -> Tensor:
        """How often each of `unique_ids` occurs (int32)."""
        counts = torch.empty(self.num_unique, dtype=torch.int32)
        self._plan.write_counts(counts)
        return counts

    def lookup(self, out: Tensor | None = None) -> Tensor:
        """Return one row per id of the batch; unknown ids read as zero."""
        out = torch.empty(self.num_ids, self._table.dim) if out is None else out
        self._plan.lookup(check_out(out))
        return out

    def lookup_unique(self) -> Tensor:
        """Return one row per entry of `unique_ids`; unknown ids read as zero."""
        out = torch.empty(self.num_unique, self._table.dim)
        self._plan.lookup_unique(out)
        return out

    def apply_gradients(
        self, gradients: Tensor, *, global_step: int = 0, time: int = NO_TIME, sum_repeated: bool = True
    ) -> native.ChangeResult:
        """Step the optimizer with one gradient row per id of the batch; see `Table.apply_gradients`."""
        rates = self._table.config.learning_rate_values(global_step)
        return self._plan.step(
            float_rows("gradients", gradients), rates, global_step, check_seconds("time", time), sum_repeated
        )


class Table:
    """Rows of floats, addressed by id.

    An id that has no row reads as zeros, in training and in serving tables alike, and a lookup never makes one. A row
    comes into being when the id is assigned or trained for the first time and its admission filter lets it.

    >>> from monolith.embedding import AdagradOptimizer, Segment, TableConfig
    >>> table = Table(TableConfig(name="movie", segments=(Segment(2, AdagradOptimizer(learning_rate=0.1)),)))
    >>> table.assign(torch.tensor([42]), torch.tensor([[1.0, 2.0]])).inserted
    1
    >>> table.lookup(torch.tensor([42, 43]))
    tensor([[1., 2.],
            [0., 0.]])
    """

    def __init__(
        self,
        config: TableConfig,
        *,
        admission: AdmissionFilter | None = None,
        max_tracked_changes: int = MAX_TRACKED_CHANGES,
        shard: HashShard = WHOLE,
    ) -> None:
        """Make an empty table, for the ids of a `shard`; a change tracker lists about `max_tracked_changes` at most."""
        self.config = config
        self.admission = admission
        self.shard = shard
        self.native = make_native_table(config, max_tracked_changes, shard)
        if admission is not None:
            self.native.set_filter(admission.native_filter, admission.native_thresholds)

    @property
    def dim(self) -> int:
        """Width of a row, in floats."""
        return self.config.dim

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.native.size()

    def plan(self, ids: Tensor, *, dedup: bool = True) -> BatchPlan:
        """Return the plan of a batch, to look it up and then train it with one search."""
        return BatchPlan(self, ids, dedup=dedup)

    def lookup(self, ids: Tensor, out: Tensor | None = None) -> Tensor:
        """Return one row per id, in order; unknown ids read as zero and get no row.

        Segments with a quantising compressor (fixed 8-bit, one-bit) read quantised, so that training sees what serving
        will. `out`, if given, is a contiguous float32 tensor of one row per id.
        """
        flat = flat_ids(ids)
        if out is not None:
            self.native.lookup(flat, check_out(out))
            return out
        rows = torch.empty(len(flat), self.dim)
        self.native.lookup(flat, rows)
        return rows if ids.dim() == 1 else rows.view(*ids.shape, self.dim)

    def assign(self, ids: Tensor, values: Tensor, *, time: int = NO_TIME) -> native.ChangeResult:
        """Overwrite rows; the last value of a repeated id stays, optimizer state is kept, new ids get a row.

        A NaN or infinite value is a ValueError and changes nothing.
        """
        plan = native.BatchPlan(self.native, flat_ids(ids), True)
        return plan.change(native.ChangeKind.ASSIGN, float_rows("values", values), check_seconds("time", time))

    def assign_add(self, ids: Tensor, values: Tensor, *, time: int = NO_TIME) -> native.ChangeResult:
        """Add to rows; values of a repeated id add up, new ids start from their initializer.

        NaN and infinity are refused as in `apply_gradients`.
        """
        plan = native.BatchPlan(self.native, flat_ids(ids), True)
        return plan.change(native.ChangeKind.ADD, float_rows("values", values), check_seconds("time", time))

    def apply_gradients(
        self, ids: Tensor, gradients: Tensor, *, global_step: int = 0, time: int = NO_TIME, sum_repeated: bool = True
    ) -> native.ChangeResult:
        """Step the optimizer; `time` (seconds) becomes the rows' last-seen time.

        Gradients of a repeated id are summed in order before one step; with `sum_repeated=False` each is a step of its
        own. A NaN or infinite gradient is a ValueError and changes nothing. A row that the step would make NaN or
        infinite, in its weights or its optimizer state, keeps both; the other rows are stepped, then a ValueError names
        the table and the id. `ClippedOptimizer` keeps huge gradients from doing that.
        """
        plan = BatchPlan(self, ids)
        return plan.apply_gradients(gradients, global_step=global_step, time=time, sum_repeated=sum_repeated)

    def reinitialize(self, ids: Tensor, *, time: int) -> Tensor:
        """Give ids a fresh first value and optimizer state.

        Returns 1 where the id had a row, 0 where it got one, -1 where the memory limit refused it.
        """
        return torch.tensor(self.native.reinitialize(flat_ids(ids), check_seconds("time", time)), dtype=torch.int32)

    def contains(self, ids: Tensor) -> Tensor:
        """Return a bool per id: whether it has a row."""
        flat = flat_ids(ids)
        out = torch.empty(flat.shape, dtype=torch.bool)
        self.native.contains(flat, out)
        return out

    def lookup_entry(self, ids: Tensor) -> list[bytes]:
        """Return a serialized EntryDump per id (stored weights, optimizer state, last seen); b"" for unknown ids."""
        return [entry_bytes(self.config, entry) for entry in self.native.lookup_entries(flat_ids(ids))]

    def erase(self, ids: Tensor) -> int:
        """Remove rows; returns how many there were."""
        return self.native.erase(flat_ids(ids))

    def forget(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Remove rows and counts of ids; return the ids that had a row, and those that had a count."""
        had_row = flat_ids(ids)[self.contains(ids)]
        self.erase(ids)
        return had_row, ids[:0] if self.admission is None else self.admission.forget(flat_ids(ids))

    def evict(self, now: int | None = None) -> int:
        """Remove rows not seen for their slot's expiry, counted back from `now` (default: the newest update)."""
        return self.native.evict(self.native.max_time if now is None else check_seconds("now", now))

    def clear(self) -> None:
        """Remove all rows and give their memory back."""
        self.native.clear()

    def memory(self) -> TableMemory:
        """Return what the table takes now, and a forecast."""
        memory = self.native.memory()
        total = memory.index_bytes + memory.row_bytes
        rows = max(1, len(self))
        overhead = (total - memory.payload_bytes) / rows
        per_row = self.native.row_bytes + (overhead if rows >= 100_000 else 20)
        return TableMemory(
            bytes_total=total, bytes_payload=memory.payload_bytes, bytes_per_million_ids=round(per_row * 1_000_000)
        )

    def items(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (ids, stored weights) until every row was seen; each part is one moment of one 256th of the table."""
        for sub_table in range(native.NUM_SUB_TABLES):
            ids, _, rows = self.native.read_rows(sub_table)
            if len(ids) == 0:
                continue
            if self.config.serving:
                out = torch.empty(len(ids), self.dim)
                native.BatchPlan(self.native, ids, True).lookup(out)
                yield torch.from_numpy(ids), out
            else:
                weights = np.ascontiguousarray(rows[:, : self.native.weight_bytes])
                yield torch.from_numpy(ids), torch.from_numpy(weights.view(np.float32))

    def ids(self, shard: HashShard = WHOLE) -> Iterator[Tensor]:
        """Yield the ids that have a row, in parts; those of a shard take about its share of the time for all."""
        check_shard(shard)
        for sub_table in range(*self.native.sub_tables_of(*shard)):
            ids = torch.from_numpy(self.native.read_rows(sub_table)[0])
            own = ids if shard in (WHOLE, self.shard) else ids[shards_of_ids(ids, shard[1]) == shard[0]]
            if len(own):
                yield own

    def track_changes(self) -> "ChangeTracker":
        """Return a new consumer of this table's changes; it gets every change from now on."""
        return ChangeTracker(self)

    def save(
        self,
        basename: str | PathLike[str],
        *,
        num_shards: int | None = None,
        plan_hash: int = 0,
        generation: int = 0,
        epoch: int = 0,
        drop_expired: bool = True,
    ) -> list[str]:
        """Write `<basename>-00000-of-0000n` while others go on using the table; returns the paths.

        All shards are one moment. Rows that have expired against the newest update are left out.
        """
        frozen = self.freeze()
        return list(
            frozen.save(
                basename,
                num_shards=num_shards,
                plan_hash=plan_hash,
                generation=generation,
                epoch=epoch,
                drop_expired=drop_expired,
            )
        )

    def freeze(self, tracker: "ChangeTracker | None" = None) -> FrozenTable:
        """Return the table as it is now, to be saved while it goes on changing; it takes a moment, whatever the size.

        With a `tracker`, its changes are taken at the same moment, and can be saved alone. A table is frozen once at a
        time: save or close what this returns.
        """
        consumer = None if tracker is None else tracker.number()
        return FrozenTable(self.config.name, self.schema(), len(self), native.FrozenTable(self.native, consumer))

    @property
    def is_unused(self) -> bool:
        """Whether it has no rows, no newest time and no newest step: there is nothing in it to lose."""
        return len(self) == 0 and self.native.max_time == 0 and self.native.max_step == 0

    def restore(
        self, basename: str | PathLike[str], *, clear: bool = True, not_finite: NotFinite = NotFinite.REFUSE
    ) -> int:
        """Become what was saved under `basename` (or add it, with `clear=False`); returns the number of rows read.

        On any error the table stays as it was: files are checked completely before they take the place of what is in
        it. Hyper-parameters and the name of the table may differ from what was saved; widths and optimizers of its
        segments may not. With `NotFinite.DROP`, rows that are not finite are left out, and their count is logged.

        Raises:
            FileNotFoundError: there are no files.
            CorruptFileError: a file is damaged or truncated, or the files are not of one save.
            ValueError: a shard is missing, or rows of the files are made differently.
            TableFullError: the table's memory limit has no room for the rows, and its policy is to refuse new ids.
            NotFiniteError: a row has a NaN or an infinity, in its weights or its optimizer state.
        """
        paths = find_shard_files(fspath(basename))
        if clear and self.is_unused:
            return fill_from_shard_files(self.native, self.schema(), paths, not_finite=not_finite)
        check_shard_files(self.native, self.schema(), paths, cleared=clear, not_finite=not_finite)
        if clear:
            self.native.clear()
        return load_shard_files(self.native, paths, not_finite=not_finite).num_rows

    def schema(self) -> str:
        """Return what files say of the table: its name and its segments, as JSON."""
        return json.dumps(
            {
                "name": self.config.name,
                "serving": self.config.serving,
                "segments": [
                    {
                        "dim": segment.dim,
                        "optimizer": segment.optimizer.kind,
                        "hyper_parameters": segment.optimizer.hyper_parameters(),
                        "initializer": segment.initializer.kind,
                        "compressor": segment.compressor.kind,
                    }
                    for segment in self.config.segments
                ],
            },
            sort_keys=True,
        )


class ChangeTracker(Closing):
    """One consumer's view of a table's changes: take them, and give them back if they could not be delivered."""

    def __init__(self, table: Table) -> None:
        """Start with nothing to tell."""
        self._table = table
        self._consumer: int | None = table.native.add_consumer()

    def take(self) -> Changes:
        """Return what changed since the last take, and start afresh."""
        touched, erased, overflowed = self._table.native.take_changes(self.number())
        return Changes(torch.from_numpy(touched), torch.from_numpy(erased), overflowed)

    def give_back(self, changes: Changes) -> None:
        """Put back what `take` returned; the next take returns it again, with what came since."""
        self._table.native.give_back_changes(self.number(), changes.touched, changes.erased, changes.overflowed)

    def close(self) -> None:
        """Stop tracking for this consumer."""
        if self._consumer is not None:
            self._table.native.remove_consumer(self._consumer)
            self._consumer = None

    def number(self) -> int:
        """Return what the native table calls this consumer."""
        if self._consumer is None:
            raise ValueError(f"table {self._table.config.name!r}: this change tracker is closed; make a new one")
        return self._consumer
