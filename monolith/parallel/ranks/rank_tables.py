"""Many tables behind one call, with their rows spread over the ranks of a synchronous job."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding import MultiTable
from monolith.embedding.table import NO_TIME, Table
from monolith.embedding.tensor_checks import check_out, detached_floats, flat_ids
from monolith.parallel.batch_key import BatchKey
from monolith.parallel.ranks.exchange import Exchange

GRADIENTS = "the gradients of rows"
"""What ranks call them in errors."""


class RankTables:
    """The rows of one rank's range of hashes, and the way to those of the others; used like a `MultiTable`.

    All ranks make the same calls at the same time. A batch goes to the owners of its ids, every id once; they send rows
    back, and get gradients, which they add up over all ranks and step once. So the ranks together do what one process
    does with their batches end to end. By default gradients are averaged over the ranks, as those of dense weights are:
    the loss is the mean over all events then, if it is the mean over a batch and all batches are of one size.
    """

    def __init__(self, tables: MultiTable, exchange: Exchange, *, average: bool = True) -> None:
        """Take this rank's part of the tables, made with `shard=(rank, number of ranks)`."""
        self.own = tables
        self.exchange = exchange
        self.average = average
        self.dims = [table.dim for table in tables.tables.values()]
        # A filter counts how often an id occurs; sending it once would hide that.
        self._merges = not self._counts_ids()

    @property
    def names(self) -> list[str]:
        """Names of the tables, in order."""
        return self.own.names

    @property
    def tables(self) -> dict[str, Table]:
        """This rank's part of each table."""
        return self.own.tables

    def __getitem__(self, name: str) -> Table:
        """Return this rank's part of one table."""
        return self.own[name]

    def over(self, exchange: Exchange) -> "RankTables":
        """Return the same tables, whose new plans go through another exchange."""
        return RankTables(self.own, exchange, average=self.average)

    def plan(self, ids: Tensor, sizes: Sequence[int], *, dedup: bool = True) -> "RankBatchPlan":
        """Return the plan of this rank's batch: `ids` flattened in table order, `sizes[t]` of them for table t."""
        return RankBatchPlan(self, ids, sizes, dedup=dedup and self._merges)

    def _counts_ids(self) -> bool:
        return any(table.admission is not None for table in self.own.tables.values())

    def plan_own(self, ids: Tensor, sizes: Sequence[int]) -> Any:
        """Return the plan of the ids that this rank owns, of all ranks' batches."""
        return self.own.plan(ids, sizes)

    def look_up_own(self, plan: Any) -> Tensor:
        """Return the rows of such a plan."""
        rows: Tensor = plan.lookup()
        return rows

    def step_own(
        self, plan: Any, gradients: Tensor, *, global_step: int, time: int, key: BatchKey | None
    ) -> native.ChangeResult:
        """Step the rows of such a plan."""
        result: native.ChangeResult = plan.apply_gradients(gradients, global_step=global_step, time=time)
        return result


class RankBatchPlan:
    """The batches of all ranks, each id at its owner; used forward and backward."""

    def __init__(self, tables: RankTables, ids: Tensor, sizes: Sequence[int], *, dedup: bool) -> None:
        """Send `ids`, `sizes[t]` of them for table t, to their owners, and take those that this rank owns."""
        self.exchange = exchange = tables.exchange
        """What the next call goes through: several threads may use a plan one after another, each with its own."""
        self.key: BatchKey | None = None
        """What parameter servers know this rank's batch by, if they hold the rows."""
        self._tables = tables
        self._sizes = list(sizes)
        self._batch = native.ShardedBatch(tables.dims, exchange.num_ranks, flat_ids(ids), self._sizes, dedup)
        wanted = torch.tensor(self._batch.part_sizes, dtype=torch.int64)
        self._asked = exchange.swap_counts(wanted)
        sent = torch.empty(self._batch.num_unique, dtype=torch.int64)
        self._batch.part_ids(sent)
        own = exchange.swap(sent, wanted.sum(1).tolist(), self._asked.sum(1).tolist())
        dims = torch.tensor(tables.dims, dtype=torch.int64)
        self._floats_wanted: list[int] = (wanted @ dims).tolist()
        self._floats_asked: list[int] = (self._asked @ dims).tolist()
        self._own_plan = tables.plan_own(_by_column(own, self._asked), self._asked.sum(0).tolist())

    @property
    def num_ids(self) -> int:
        """Ids in this rank's batch, repeated ones counted."""
        return self._batch.num_ids

    @property
    def num_unique(self) -> int:
        """Different ids in this rank's batch, table by table."""
        return self._batch.num_unique

    def lookup(self, out: Tensor | None = None) -> Tensor:
        """Return the rows of all ids as one flat tensor, table after table; `split` cuts it."""
        out = torch.empty(self._batch.num_floats) if out is None else check_out(out, num_dims=1)
        rows = _by_row(self._tables.look_up_own(self._own_plan), self._own_floats)
        self._batch.scatter_parts(self.exchange.swap(rows, self._floats_asked, self._floats_wanted), out)
        return out

    def split(self, flat: Tensor) -> list[Tensor]:
        """Return one [ids, dim] view per table of a tensor laid out like `lookup`'s."""
        pairs = list(zip(self._sizes, self._tables.dims, strict=True))
        parts = torch.split(flat, [size * dim for size, dim in pairs])
        return [part.view(size, dim) for part, (size, dim) in zip(parts, pairs, strict=True)]

    def apply_gradients(self, gradients: Tensor, *, global_step: int = 0, time: int = NO_TIME) -> native.ChangeResult:
        """Step the optimizers of all owners with gradients laid out like `lookup`'s; counts are of this rank's rows.

        If a gradient of some rank is NaN or infinite, all ranks get a NotFiniteError, and no row changes.
        """
        flat, is_finite = self.checked(gradients)
        # Rows have the newest time of all ranks, as if their batches were one.
        time = self.exchange.check_all_finite(is_finite, GRADIENTS, time)
        return self.send_gradients(flat, global_step=global_step, time=time)

    def checked(self, gradients: Tensor) -> tuple[Tensor, bool]:
        """Return gradients laid out like `lookup`'s as `send_gradients` takes them, and whether all are finite."""
        if gradients.shape != (self._batch.num_floats,):
            raise ValueError(
                f"gradients must be one flat tensor of {self._batch.num_floats} floats, laid out like lookup's, got "
                f"shape {tuple(gradients.shape)}"
            )
        flat = detached_floats(gradients, "gradients")
        return flat, native.first_not_finite(flat) == flat.numel()

    def send_gradients(self, flat: Tensor, *, global_step: int = 0, time: int = NO_TIME) -> native.ChangeResult:
        """Step the optimizers of all owners with gradients that are finite on every rank.

        A row of this rank that would become NaN or infinite is an error here alone: a rank that has it ends.
        """
        exchange = self.exchange
        sums = torch.empty(self._batch.part_floats)
        self._batch.sum_parts(flat, sums)
        received = exchange.swap(sums, self._floats_wanted, self._floats_asked)
        if self._tables.average:
            received /= exchange.num_ranks
        return self._tables.step_own(
            self._own_plan, _by_column(received, self._own_floats), global_step=global_step, time=time, key=self.key
        )

    @property
    def _own_floats(self) -> Tensor:
        """Floats that this rank owns, by rank that asked for them and table."""
        return self._asked * torch.tensor(self._tables.dims)


def _by_column(flat: Tensor, counts: Tensor) -> Tensor:
    """Return pieces that stand row by row of a matrix of their sizes, column by column."""
    num_rows, num_columns = counts.shape
    if num_columns < 2 or num_rows < 2:
        return flat  # one table, one rank, or a model without tables: the order is the same
    pieces = torch.split(flat, counts.reshape(-1).tolist())
    return torch.cat([pieces[row * num_columns + column] for column in range(num_columns) for row in range(num_rows)])


def _by_row(flat: Tensor, counts: Tensor) -> Tensor:
    """Return pieces that stand column by column of a matrix of their sizes, row by row."""
    return _by_column(flat, counts.T.contiguous())
