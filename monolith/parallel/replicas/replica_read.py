"""ReplicaRead: one read of rows from replicas of all shards."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from monolith._core import native
from monolith.parallel.replicas.asked_replica import READ_FAILURES, AskedReplica
from monolith.parallel.replicas.hedging import Hedges
from monolith.parallel.replicas.shard_replicas import Replica, ShardReplicas
from monolith.wire import Deadline

_PAUSE_SECONDS: Final = 0.02
_LOOK_SECONDS: Final = 1.0
"""How often a rival is looked for where there is none."""

_NEVER: Final = float("inf")
_request_ids: Final = itertools.count(1)


@dataclass(slots=True)
class _ShardRead:
    """The part of a read that one shard answers."""

    number: int
    replicas: ShardReplicas
    tried: set[Replica] = field(default_factory=set)
    asked: list[AskedReplica] = field(default_factory=list)
    """Those that may still answer."""

    asks_at: float = 0.0
    """When the next replica is asked, if none may still answer."""

    hedges_at: float = _NEVER
    """When another one is asked as well."""

    may_hedge: bool = True
    """Whether that has not happened yet."""

    gives_up_at: float = _NEVER
    """When those that were asked have had their part of the time."""

    def next_moment(self) -> float:
        """Return when there is something to do, whether or not anybody answers."""
        return min(self.hedges_at, self.gives_up_at) if self.asked else self.asks_at


class ReplicaRead:
    """Asks one replica of each shard, and others where one fails or is silent, until all shards have answered.

    The shards do not wait for each other. A replica that is silent for longer than is usual gets a rival: the first
    answer counts, and the other is left to come when it may.
    """

    def __init__(
        self,
        call: native.ShardedCall,
        shards: Sequence[ShardReplicas],
        hedges: Hedges,
        deadline: Deadline,
        *,
        refresh: Callable[[float], None],
    ) -> None:
        """Prepare; `refresh` looks for replicas, unless it has done so within some seconds."""
        self._call, self._hedges, self._deadline = call, hedges, deadline
        self._refresh = refresh
        self._shards = [_ShardRead(number, replicas) for number, replicas in enumerate(shards)]
        self.num_hedged = [0] * len(shards)
        """For each shard, the second questions that were asked."""
        self.why = "no replica is known"
        """Why the last replica that failed did."""

    def run(self) -> list[int]:
        """Read; return the shards that did not answer in time."""
        try:
            while (pending := self._call.pending) and not self._deadline.expired:
                shards = [self._shards[number] for number in pending]
                for shard in shards:
                    self._ask(shard)
                self._await_news(shards)
        finally:
            for shard in self._shards:
                self._give_up(shard)
        return pending

    def _ask(self, shard: _ShardRead) -> None:
        """Ask a replica if it is time to."""
        now = time.monotonic()
        if now < shard.next_moment():
            return
        if shard.asked and now >= shard.gives_up_at:
            self._give_up(shard)
        if shard.asked:
            self._hedge(shard)
        elif (replica := shard.replicas.next(shard.tried)) is not None:
            self._begin(shard, replica)
            shard.hedges_at = now + self._hedges.delay_seconds if shard.may_hedge else _NEVER
        else:
            # All of them failed: perhaps they are elsewhere now, or come back.
            self._refresh(0.0)
            shard.tried.clear()
            shard.asks_at = now + _PAUSE_SECONDS

    def _hedge(self, shard: _ShardRead) -> None:
        if shard.replicas.num_left(shard.tried) == 0:
            self._refresh(_LOOK_SECONDS)
        replica = shard.replicas.next_well(shard.tried)
        shard.hedges_at = _NEVER if replica else time.monotonic() + _LOOK_SECONDS
        if replica is not None and self._hedges.take():
            shard.may_hedge = False
            self.num_hedged[shard.number] += 1
            self._begin(shard, replica)

    def _begin(self, shard: _ShardRead, replica: Replica) -> None:
        shard.tried.add(replica)
        try:
            one = AskedReplica(replica, shard.number, next(_request_ids))
        except OSError as error:  # this process has too many files open
            self.why = str(error)
            return
        shard.asked.append(one)
        shard.gives_up_at = self._part(shard).at_seconds
        if one.is_due:
            self._go_on(shard, one)

    def _await_news(self, shards: Sequence[_ShardRead]) -> None:
        """Wait until somebody answers, or until it is time to ask somebody else."""
        asked = [(shard, one) for shard in shards for one in shard.asked]
        until = min(self._deadline.at_seconds, *(shard.next_moment() for shard in shards))
        left_ms = max(0, math.ceil((until - time.monotonic()) * 1000))
        for number in native.await_any([one.fileno() for _, one in asked], left_ms):
            shard, one = asked[number]
            if one in shard.asked:  # otherwise its rival was faster
                self._go_on(shard, one)

    def _go_on(self, shard: _ShardRead, one: AskedReplica) -> None:
        try:
            one.go_on(self._call, self._part(shard))
        except READ_FAILURES as error:
            self.why = str(error)
            one.fail()
            shard.asked.remove(one)
            # Somebody else takes its place at once, also that of a rival.
            shard.hedges_at = shard.asks_at = time.monotonic()
            return
        if one.is_answered:
            self._hedges.count_answer(time.monotonic() - one.asked_at)
            one.give_back()
            shard.asked.remove(one)
            for rival in shard.asked:
                rival.leave(self._deadline)
            shard.asked.clear()

    def _part(self, shard: _ShardRead) -> Deadline:
        """Return when those that were asked have had their time: early enough for all that were not asked yet."""
        return self._deadline.part(1 + shard.replicas.num_left(shard.tried))

    def _give_up(self, shard: _ShardRead) -> None:
        for one in shard.asked:
            self.why = f"{one.replica.address}: it was silent"
            one.fail()
        shard.asked.clear()
