"""ReplicatedTables: tables to read, with their rows on replicas of several shards."""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field

import torch
from torch import Tensor

from monolith._core import native
from monolith.closing import Closing
from monolith.embedding import TableConfig
from monolith.embedding.hash_shards import shards_of_ids
from monolith.embedding.tensor_checks import check_out, flat_ids
from monolith.parallel.messages import Hello, tables_of
from monolith.parallel.replicas.hedging import Hedges
from monolith.parallel.replicas.replica_read import ReplicaRead
from monolith.parallel.replicas.shard_replicas import ShardReplicas
from monolith.wire import Address, Deadline, SharedSecret, TlsConfig

FindReplicas = Callable[[int], Sequence[str | Address]]
"""Returns the addresses of the replicas of a shard."""


class ShardAwayError(ConnectionError):
    """No replica of a shard answered in time; the message names the shard and the reason."""


_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadConfig:
    """How rows are read from replicas."""

    deadline_seconds: float = 30.0
    """Shards that have not answered by then read as if they had no rows."""

    refresh_seconds: float = 5.0
    """Replicas are looked for this often, and whenever none of a shard answers."""

    hedge_seconds: float | None = None
    """A replica that is silent for this long gets a rival; 0: never. None: twice what answers usually take."""

    default_rows: bool = True
    """Whether the rows of a shard that does not answer read as zeros; otherwise the read is a ShardAwayError."""

    def __post_init__(self) -> None:
        """Reject times that let nothing through."""
        for name in ("deadline_seconds", "refresh_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.hedge_seconds is not None and not self.hedge_seconds >= 0:
            raise ValueError(f"hedge_seconds must be zero or more, got {self.hedge_seconds}")


@dataclass(slots=True)
class ReadCounts:
    """What happened to reads, for each shard."""

    default_rows: list[int] = field(default_factory=list)
    """Rows that were read as zeros because no replica answered."""

    hedged_reads: list[int] = field(default_factory=list)
    """Reads for which a second replica was asked because the first was silent."""

    def widen(self, num_shards: int) -> None:
        """Have a count for each shard."""
        for counts in (self.default_rows, self.hedged_reads):
            counts += [0] * (num_shards - len(counts))


class ReplicatedTables(Closing):
    """Named tables to read, each spread over shards by the hash of its ids; any number of threads may read.

    A read is one request to each shard, with the ids of all tables, each id once. If a replica does not answer, another
    one is asked. Rows of a shard of which no replica answers in time are zeros, as those of ids without a row:
    `counts` has their number.
    """

    def __init__(
        self,
        configs: Mapping[str, TableConfig],
        num_shards: int,
        find: FindReplicas,
        *,
        plan_hash: int,
        version: int = 0,
        counts: ReadCounts | None = None,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        config: ReadConfig | None = None,
    ) -> None:
        """Look for replicas; nothing is connected before the first read.

        `version` is that of the model; replicas of another are not read. `counts` go on from other tables.
        """
        self.config = config or ReadConfig()
        self.tables = {name: TableToRead(configs[name]) for name in sorted(configs)}
        self.plan_hash = plan_hash
        self.num_shards = num_shards
        self.counts = counts or ReadCounts()
        self.counts.widen(num_shards)
        self._find = find
        self._hedges = Hedges(self.config.hedge_seconds, deadline_seconds=self.config.deadline_seconds)
        self._shards = [
            ShardReplicas(
                Hello(
                    plan_hash=plan_hash,
                    shard=shard,
                    num_shards=num_shards,
                    tables=tables_of(configs),
                    version=version,
                ),
                secret=secret,
                tls=tls,
                connect_seconds=self.config.deadline_seconds,
            )
            for shard in range(num_shards)
        ]
        # Replicas keep the rows of a version for as long as somebody is connected.
        self._at_exit = weakref.finalize(self, _close_all, self._shards)
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._refresh_lock = threading.Lock()
        self._refreshed_at = float("-inf")
        self._logged_at = float("-inf")
        self.refresh()

    @property
    def names(self) -> list[str]:
        """Names of the tables, in order."""
        return list(self.tables)

    @property
    def replicas(self) -> list[list[Address]]:
        """Where the replicas of each shard are."""
        return [shard.addresses for shard in self._shards]

    def __getitem__(self, name: str) -> "TableToRead":
        """Return one table; an unknown name is a KeyError that lists the known ones."""
        if name not in self.tables:
            raise KeyError(f"there is no table {name!r}; the tables are {', '.join(self.tables)}")
        return self.tables[name]

    def plan(self, ids: Tensor, sizes: Sequence[int], *, dedup: bool = True) -> "ReplicatedRead":
        """Return a read: `ids` flattened in table order, `sizes[t]` of them for table t."""
        return ReplicatedRead(self, ids, sizes, dedup=dedup)

    @property
    def shards_away(self) -> tuple[int, ...]:
        """Shards that did not answer the last read of this thread: their rows were zeros."""
        away: tuple[int, ...] = getattr(self._of_thread, "away", ())
        return away

    def require_replicas(self) -> None:
        """Raise a ShardAwayError unless every shard has a replica that would answer a read now."""
        deadline = Deadline.after(self.config.deadline_seconds)
        for number, asked in enumerate([shard.connect() for shard in self._shards]):
            why = "no replica is registered"
            try:
                for one in as_completed(asked, max(0.0, deadline.at_seconds - time.monotonic())):
                    if (error := one.exception()) is None:
                        break
                    why = str(error)
                else:
                    raise ShardAwayError(f"no replica of shard {number} of {self.num_shards} answers: {why}")
            except TimeoutError as error:
                words = f"no replica of shard {number} of {self.num_shards} answers: they are silent"
                raise ShardAwayError(words) from error

    def refresh(self, max_age_seconds: float = 0.0) -> None:
        """Look for replicas, unless that was done this lately; where none can be found, those of before stay."""
        if time.monotonic() - self._refreshed_at < max_age_seconds:
            return
        with self._refresh_lock:
            self._refreshed_at = time.monotonic()
            for number, shard in enumerate(self._shards):
                try:
                    found = list(self._find(number))
                except (OSError, ValueError) as error:
                    _log.warning("the replicas of shard %d cannot be looked up: %s", number, error)
                    continue
                if found:
                    shard.replace(found)

    def carry_out(self, call: native.ShardedCall) -> list[int]:
        """Read what the call asks for; return the shards that did not answer in time."""
        self.refresh(self.config.refresh_seconds)
        deadline = Deadline.after(self.config.deadline_seconds)
        read = ReplicaRead(call, self._shards, self._hedges, deadline, refresh=self.refresh)
        pending = read.run()
        self._count(self.counts.hedged_reads, read.num_hedged)
        self._of_thread.away = tuple(pending)
        if pending:
            words = f"shards {pending} did not answer within {self.config.deadline_seconds:g} s: {read.why}"
            if not self.config.default_rows:
                raise ShardAwayError(words)
            self._log_once_a_second(words)
        return pending

    def count_default_rows(self, num_rows: Sequence[int]) -> None:
        """Add to the rows that were read as zeros, shard by shard."""
        self._count(self.counts.default_rows, num_rows)

    def close(self) -> None:
        """Close all connections that no read uses."""
        self._at_exit()

    def _count(self, totals: list[int], more: Sequence[int]) -> None:
        with self._lock:
            for shard, number in enumerate(more):
                totals[shard] += number

    def _log_once_a_second(self, words: str) -> None:
        with self._lock:
            is_due = time.monotonic() - self._logged_at > 1.0
            if is_due:
                self._logged_at = time.monotonic()
        if is_due:
            _log.warning("%s; their rows read as zeros", words)


class ReplicatedRead:
    """The ids of one read, each once per table, sorted by shard."""

    def __init__(self, tables: ReplicatedTables, ids: Tensor, sizes: Sequence[int], *, dedup: bool) -> None:
        """Group `ids`, `sizes[t]` of them for table t."""
        self._tables = tables
        self._ids = flat_ids(ids)
        self._sizes = list(sizes)
        self._dims = [table.dim for table in tables.tables.values()]
        self._batch = native.ShardedBatch(self._dims, tables.num_shards, self._ids, self._sizes, dedup)
        self.shards_away: list[int] = []
        """After `lookup`: shards whose rows read as zeros because no replica answered in time."""

    def lookup(self, out: Tensor | None = None) -> Tensor:
        """Return the rows of all ids as one flat tensor, table after table."""
        out = torch.empty(self._batch.num_floats) if out is None else out
        call = self._batch.pull(check_out(out, num_dims=1), plan_hash=self._tables.plan_hash, half=False)
        self.shards_away = self._tables.carry_out(call)
        if self.shards_away:
            self._write_defaults(out)
        return out

    def _write_defaults(self, out: Tensor) -> None:
        """Write zeros for the shards that are away: a reply that broke off may have left some rows."""
        counts = [0] * self._tables.num_shards
        widths = [size * dim for size, dim in zip(self._sizes, self._dims, strict=True)]
        parts = zip(torch.split(out, widths), torch.split(self._ids, self._sizes), self._dims, strict=True)
        for rows, ids, dim in parts:
            shards = shards_of_ids(ids, self._tables.num_shards)
            for shard in self.shards_away:
                away = shards == shard
                rows.view(-1, dim)[away] = 0.0
                counts[shard] += int(away.sum())
        self._tables.count_default_rows(counts)


class TableToRead:
    """What is known of a table whose rows are elsewhere."""

    def __init__(self, config: TableConfig) -> None:
        """Take its configuration."""
        self.config = config

    @property
    def dim(self) -> int:
        """Width of a row, in floats."""
        return self.config.dim


def _close_all(shards: Sequence[ShardReplicas]) -> None:
    for shard in shards:
        shard.close()
