"""One batch of ids for tables on table servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding import TableConfig
from monolith.embedding.table import NO_TIME
from monolith.embedding.tensor_checks import check_finite, check_out, check_seconds, detached_floats, flat_ids
from monolith.parallel.batch_key import BatchKey, CallNumbers
from monolith.parallel.server_group import ServerGroup


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TablesOnServers:
    """What every batch needs to know of its tables."""

    configs: Mapping[str, TableConfig]
    """By name, in order of name."""

    servers: ServerGroup

    calls: CallNumbers

    plan_hash: int

    half: bool
    """Rows and gradients travel as fp16."""

    dims: list[int]
    """Width of a row of every table."""


class RemoteBatchPlan:
    """The ids of one batch, each once per table, sorted by table server; used forward and backward."""

    def __init__(self, tables: TablesOnServers, ids: Tensor, sizes: Sequence[int], *, dedup: bool) -> None:
        """Group `ids`, `sizes[t]` of them for table t; without `dedup`, every occurrence goes out."""
        self._tables = tables
        self._ids = flat_ids(ids)
        self._sizes = list(sizes)
        self._dedup = dedup
        self._batch = native.ShardedBatch(tables.dims, len(tables.servers.links), self._ids, self._sizes, dedup)

    @property
    def num_ids(self) -> int:
        """Ids in the batch, repeated ones counted."""
        return self._batch.num_ids

    @property
    def num_unique(self) -> int:
        """Different ids in the batch, table by table."""
        return self._batch.num_unique

    def lookup(self, out: Tensor | None = None) -> Tensor:
        """Return the rows of all ids as one flat tensor, table after table; `split` cuts it."""
        out = torch.empty(self._batch.num_floats) if out is None else out
        call = self._batch.pull(check_out(out, num_dims=1), plan_hash=self._tables.plan_hash, half=self._tables.half)
        self._tables.servers.carry_out(call)
        return out

    def split(self, flat: Tensor) -> list[Tensor]:
        """Return one [ids, dim] view per table of a tensor laid out like `lookup`'s."""
        pairs = list(zip(self._sizes, self._tables.dims, strict=True))
        parts = torch.split(flat, [size * dim for size, dim in pairs])
        return [part.view(size, dim) for part, (size, dim) in zip(parts, pairs, strict=True)]

    def assign(self, values: Tensor, *, time: int = NO_TIME) -> native.ChangeResult:
        """Overwrite rows with values laid out like `lookup`'s."""
        return self._change(native.ChangeKind.ASSIGN, self._flat(values, "values"), time)

    def assign_add(self, values: Tensor, *, time: int = NO_TIME) -> native.ChangeResult:
        """Add values laid out like `lookup`'s to rows."""
        return self._change(native.ChangeKind.ADD, self._flat(values, "values"), time)

    def apply_gradients(
        self, gradients: Tensor, *, global_step: int = 0, time: int = NO_TIME, key: BatchKey | None = None
    ) -> native.ChangeResult:
        """Step every table's optimizer with gradients laid out like `lookup`'s.

        With a `key`, each server skips the batch if it has applied it before, from this client or another.
        """
        if not self._dedup:
            raise ValueError("a step on table servers names each id once: make the plan with dedup=True")
        configs = self._tables.configs.values()
        rates = [rate for config in configs for rate in config.learning_rate_values(global_step)]
        flat = self._flat(gradients, "gradients")
        return self._change(native.ChangeKind.STEP, flat, time, rates=rates, global_step=global_step, key=key)

    def _change(
        self,
        kind: native.ChangeKind,
        values: Tensor,
        time: int,
        *,
        rates: Sequence[float] = (),
        global_step: int = 0,
        key: BatchKey | None = None,
    ) -> native.ChangeResult:
        self._check_finite(values)
        partition, begin, end = self._tables.calls.next() if key is None else key.parts
        call = self._batch.change(
            kind,
            values,
            learning_rates=list(rates),
            global_step=global_step,
            time=check_seconds("time", time),
            partition=partition,
            begin=begin,
            end=end,
            plan_hash=self._tables.plan_hash,
            half=self._tables.half,
            counts=any(link.counted for link in self._tables.servers.links),
        )
        self._tables.servers.carry_out(call)
        return call.result

    def _flat(self, values: Tensor, what: str) -> Tensor:
        if values.shape != (self._batch.num_floats,):
            raise ValueError(
                f"{what} must be one flat tensor of {self._batch.num_floats} floats, laid out like lookup's, got shape "
                f"{tuple(values.shape)}"
            )
        return detached_floats(values, what)

    def _check_finite(self, values: Tensor) -> None:
        """Refuse NaN and infinity before the first server changes a row."""
        if self._batch.first_not_finite(values) == values.numel():
            return
        for name, ids, rows in zip(
            self._tables.configs, torch.split(self._ids, self._sizes), self.split(values), strict=True
        ):
            check_finite(name, ids, rows)
