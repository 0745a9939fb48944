"""ReplicatedTables: tables to read, with their rows on replicas of several shards."""

import itertools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from monolith._core import native
from monolith.closing import Closing
from monolith.embedding import TableConfig
from monolith.embedding.hash_shards import shards_of_ids
from monolith.embedding.tensor_checks import check_out, flat_ids
from monolith.errors import CorruptFrameError, FencedError, PlanMismatchError, RemoteError
from monolith.parallel.messages import Hello, raise_refusal, tables_of
from monolith.parallel.replicas.shard_replicas import Replica, ShardReplicas
from monolith.parallel.server_link import ServerLink
from monolith.wire import Address, Deadline, SharedSecret, TlsConfig
from monolith.wire.connection import Connection

FindReplicas = Callable[[int], Sequence[str | Address]]
"""Returns the addresses of the replicas of a shard."""

_FAILURES = (OSError, CorruptFrameError, RemoteError, PlanMismatchError, FencedError)
"""What one replica may do to a read; another one is asked."""

_PAUSE_SECONDS = 0.02


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

    default_rows: bool = True
    """Whether the rows of a shard that does not answer read as zeros; otherwise the read is a ShardAwayError."""

    def __post_init__(self) -> None:
        """Reject times that let nothing through."""
        for name in ("deadline_seconds", "refresh_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


class ReplicatedTables(Closing):
    """Named tables to read, each spread over shards by the hash of its ids; any number of threads may read.

    A read is one request to each shard, with the ids of all tables, each id once. If a replica does not answer, another
    one is asked. Rows of a shard of which no replica answers in time are zeros, as those of ids without a row:
    `default_rows` counts them.
    """

    def __init__(
        self,
        configs: Mapping[str, TableConfig],
        num_shards: int,
        find: FindReplicas,
        *,
        plan_hash: int,
        version: int = 0,
        default_rows: list[int] | None = None,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        config: ReadConfig | None = None,
    ) -> None:
        """Look for replicas; nothing is connected before the first read.

        `version` is that of the model; replicas of another are not read. `default_rows` goes on from other tables.
        """
        self.config = config or ReadConfig()
        self.tables = {name: TableToRead(configs[name]) for name in sorted(configs)}
        self.plan_hash = plan_hash
        self.num_shards = num_shards
        self.default_rows = [] if default_rows is None else default_rows
        """For each shard, the rows that were read as zeros because no replica answered."""
        self.default_rows += [0] * (num_shards - len(self.default_rows))
        self._find = find
        self._is_encrypted = tls is not None
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
        self._request_ids = itertools.count(1)
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
        for number, shard in enumerate(self._shards):
            tried: set[Replica] = set()
            why = "no replica is registered" if not shard.addresses else ""
            while (replica := shard.next(tried)) is not None:
                tried.add(replica)
                link = replica.take()
                try:
                    link.connection(deadline)
                except _FAILURES as error:
                    replica.fail(link)
                    why = str(error)
                    continue
                replica.give_back(link)
                break
            else:
                raise ShardAwayError(f"no replica of shard {number} of {self.num_shards} answers: {why}")

    def refresh(self) -> None:
        """Look for replicas now; where none can be found, those of before stay."""
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
        if time.monotonic() - self._refreshed_at > self.config.refresh_seconds:
            self.refresh()
        deadline = Deadline.after(self.config.deadline_seconds)
        tried: dict[int, set[Replica]] = {}
        why = "no replica is known"
        while (pending := call.pending) and not deadline.expired:
            links = {}
            for shard in pending:
                replica = self._shards[shard].next(tried.setdefault(shard, set()))
                if replica is not None:
                    tried[shard].add(replica)
                    links[shard] = _Asked(replica)
            if links:
                why = self._attempt(call, links, self._until(pending, tried, deadline)) or why
                continue
            # All of them failed: perhaps they are elsewhere now, or come back.
            time.sleep(min(_PAUSE_SECONDS, max(0.0, deadline.at_seconds - time.monotonic())))
            self.refresh()
            tried.clear()
        self._of_thread.away = tuple(pending)
        if pending:
            words = f"shards {pending} did not answer within {self.config.deadline_seconds:g} s: {why}"
            if not self.config.default_rows:
                raise ShardAwayError(words)
            self._log_once_a_second(words)
        return pending

    def count_default_rows(self, num_rows: Mapping[int, int]) -> None:
        """Add to `default_rows`."""
        with self._lock:
            for shard, count in num_rows.items():
                self.default_rows[shard] += count

    def close(self) -> None:
        """Close all connections that no read uses."""
        self._at_exit()

    def _log_once_a_second(self, words: str) -> None:
        with self._lock:
            is_due = time.monotonic() - self._logged_at > 1.0
            if is_due:
                self._logged_at = time.monotonic()
        if is_due:
            _log.warning("%s; their rows read as zeros", words)

    def _until(self, pending: Sequence[int], tried: Mapping[int, set[Replica]], deadline: Deadline) -> Deadline:
        """Return when an attempt ends: early enough for every replica that is left to be asked."""
        left = max(self._shards[shard].num_left(tried[shard]) for shard in pending)
        seconds = max(0.001, deadline.at_seconds - time.monotonic())
        return Deadline.after(seconds / (1 + left))

    def _attempt(self, call: native.ShardedCall, asked: dict[int, "_Asked"], deadline: Deadline) -> str:
        """Ask one replica of each shard; return why one did not answer."""
        for one in asked.values():
            try:
                one.connection = one.link.connection(deadline)
            except _FAILURES as error:
                one.failure = str(error)
        connections = [asked[shard].connection if shard in asked else None for shard in range(self.num_shards)]
        left_ms = max(1, round((deadline.at_seconds - time.monotonic()) * 1000))
        request_id = next(self._request_ids)
        if self._is_encrypted:
            failures = call.exchange_over(
                [None if one is None else one.by(deadline) for one in connections], request_id, left_ms
            )
        else:
            sockets = [-1 if one is None else one.fileno() for one in connections]
            failures = call.exchange(sockets, request_id, left_ms)
        for shard, words, refusal in failures:
            asked[shard].failure = words or _words_of(asked[shard].replica.address, refusal)
        why = ""
        for one in asked.values():
            if one.failure is None:
                one.replica.give_back(one.link)
            else:
                one.replica.fail(one.link)
                why = f"{one.replica.address}: {one.failure}"
        return why


@dataclass(slots=True)
class _Asked:
    """A replica that is asked in an attempt."""

    replica: Replica
    link: ServerLink = field(init=False)
    connection: Connection | None = None
    failure: str | None = None

    def __post_init__(self) -> None:
        self.link = self.replica.take()


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
        counts = dict.fromkeys(self.shards_away, 0)
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


def _words_of(address: Address, refusal: bytes) -> str:
    """Return what a server's error reply says."""
    try:
        raise_refusal(address, refusal)
    except _FAILURES as error:
        return str(error)
    return "an error without words"
