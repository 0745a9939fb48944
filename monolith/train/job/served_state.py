"""ServedState: a training state whose rows and dense weights are on parameter servers."""

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from monolith.data import Batch, Source
from monolith.embedding import MultiTable
from monolith.model import LookupPlan, MonolithModel, Pulled
from monolith.observe.metric_client import get_cli
from monolith.parallel import BatchKey, RemoteTables, RetryConfig
from monolith.parallel.batch_key import MAX_PARTITION_BYTES
from monolith.parallel.remote_dense import PackedGradients, RemoteDense
from monolith.parallel.remote_plan import RemoteBatchPlan
from monolith.parallel.server_group import GivenUp
from monolith.train.culprit import place_of_batch, push_failure
from monolith.train.job.ahead import WorkingAhead
from monolith.train.job.retries import is_loss
from monolith.train.state import TrainState
from monolith.train.state.clock import Reading
from monolith.train.state.train_state import StateConfig
from monolith.wire import SharedSecret, TlsConfig

_RECENT_STEPS = 100
_METRICS_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Servers:
    """The parameter servers of a generation, and how to reach them."""

    addresses: Sequence[str]
    generation: int
    secret: SharedSecret = field(repr=False)
    tls: TlsConfig | None = None
    retry: RetryConfig = field(default_factory=RetryConfig)
    given_up: GivenUp = field(default_factory=GivenUp)

    half: bool = False
    """Rows and their gradients travel as fp16; dense weights never do."""

    def tables(self, plan: LookupPlan, *, connects: bool = True) -> RemoteTables:
        """Return the tables of a plan; without `connects`, they are connected later."""
        return RemoteTables(
            plan.tables(),
            self.addresses,
            plan_hash=plan.hash,
            generation=self.generation,
            secret=self.secret,
            tls=self.tls,
            half=self.half,
            retry=self.retry,
            given_up=self.given_up,
            connects=connects,
        )

    def dense(self, plan: LookupPlan) -> RemoteDense:
        """Return the worker's side of the dense weights; nothing is connected yet."""
        return RemoteDense(
            self.addresses,
            plan_hash=plan.hash,
            generation=self.generation,
            secret=self.secret,
            tls=self.tls,
            retry=self.retry,
            given_up=self.given_up,
        )


class ServedState(TrainState):
    """A worker's view of a state that several workers train; pushes carry the place of their batch in the data."""

    dense: RemoteDense

    def __init__(self, model: MonolithModel, source: Source, config: StateConfig, ahead: int | None = None) -> None:
        """Make the plan, and connect to the servers that `_connect` returns.

        With `ahead`, gradients are pushed in the background, and rows fetched as many batches before their turn.
        """
        super().__init__(model, source, config)
        self._ends: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._sizes: deque[int] = deque(maxlen=_RECENT_STEPS)  # events of the batches that ended then
        self._staleness: deque[int] = deque(maxlen=_RECENT_STEPS)
        self._next_metrics = 0.0
        self._known_step = 0  # when the present batch was pulled
        self._ahead = None if ahead is None else WorkingAhead(source, self._fetched, ahead)
        self._counts = threading.Lock()
        self._pushed_step = 0  # as the servers counted last
        self._num_behind = 0  # batches that were computed, but are not counted in it

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the source."""
        return super().batches() if self._ahead is None else self._ahead.batches()

    def pull(self, batch: Batch) -> Pulled:
        """Return the rows of a batch; raise what went wrong in the background since the last one."""
        if self._ahead is None:
            pulled, self._known_step = self._fetched(batch)
            return pulled
        pulled, self._known_step = self._ahead.rows()
        self.dense.assign()
        return pulled

    def push(self, pulled: Pulled, batch: Batch, reading: Reading) -> None:
        """Step the rows of a batch, on the servers that have not done so."""
        push = partial(push_named, pulled, batch, global_step=self.global_step, time=reading.time)
        if self._ahead is None:
            push()
        else:
            place = place_of_batch(batch, self.global_step)
            self._in_turn(partial(push_behind, push, pulled, place), batch)

    def step_dense(self, batch: Batch) -> None:
        """Let the owners of the dense weights step them; the model gets the new values with its next rows."""
        steps = 0

        def step(closure: object = None) -> None:
            nonlocal steps
            steps += 1
            if steps > 1:
                raise ValueError(
                    f"{type(self.model).__name__} steps its optimizer twice for a batch; parameter servers know a "
                    "batch by its place in the data, and step once"
                )
            self._send_dense(batch)

        if self.optimizer is not None:
            # The model decides how to step, such as after clipping; the step itself happens elsewhere.
            self.optimizer.step = step  # type: ignore[method-assign, assignment]
            try:
                self.model.dense_step(self.optimizer)
            finally:
                del self.optimizer.step
        if not steps:  # nothing to step, but the batch counts
            self.model.zero_grad()
            self._send_dense(batch)

    def count(self, batch: Batch) -> None:
        """Note the position; steps are counted by the servers, for all workers."""
        super().count(batch)
        self._read_step()
        self._ends.append(time.monotonic())
        self._sizes.append(len(batch))
        if self._ends[-1] >= self._next_metrics:
            self._next_metrics = self._ends[-1] + _METRICS_SECONDS
            for name, value in self.figures().items():
                get_cli().emit_store(f"job_{name}", value)

    def drain(self) -> None:
        """Wait until the servers have applied everything that was computed."""
        if self._ahead is not None:
            self._ahead.lane.drain()
            self._read_step()

    def has_reached(self, step: int) -> bool:
        """Return whether all workers together are at a step; batches that were applied before do not count."""
        if self.global_step >= step:
            self.drain()
        return self.global_step >= step

    def evict_if_due(self) -> None:
        """Remove expired rows if it is time to, after the updates before."""
        if self.clock.is_eviction_due(self.tables):
            self.drain()
            super().evict_if_due()

    def evict_expired(self) -> int:
        """Remove rows that have expired by now, after the updates before."""
        self.drain()
        return super().evict_expired()

    def fetch_dense(self, *, kept: bool = False) -> None:
        """Bring weights and step up to date, while nothing is under way."""
        step = self.dense.fetch(kept=kept)
        with self._counts:
            self.global_step = self._pushed_step = step

    def learn_step(self) -> None:
        """Ask the servers for the step, and take the newest weights; no step is under way."""
        self.drain()
        self.fetch_dense()

    def dense_held(self) -> AbstractContextManager[int]:
        """Hold the newest weights of the owners."""
        return self.dense.held()

    def figures(self) -> dict[str, Any]:
        """Return what people may want to know of this worker."""
        seconds = self._ends[-1] - self._ends[0] if len(self._ends) > 1 else 0.0
        num_events = sum(self._sizes) - self._sizes[0] if self._sizes else 0
        return {
            "global_step": self.global_step,
            "steps_per_second": round((len(self._ends) - 1) / seconds, 2) if seconds else 0.0,
            "events_per_second": round(num_events / seconds, 1) if seconds else 0.0,
            "staleness": max(self._staleness, default=0),
            "queue": self._num_behind,
            "retries": cast(RemoteTables, self.tables).servers.num_retries,
        }

    def can_be_saved_after(self, error: Exception) -> bool:
        """Return whether the servers are there, for this process."""
        return not is_loss(error)

    def close(self) -> None:
        """End what is under way, and close the connections."""
        if self._ahead is not None:
            self._ahead.close()
        cast(RemoteTables, self.tables).close()
        if hasattr(self, "dense"):
            self.dense.close()

    def _fetched(self, batch: Batch) -> tuple[Pulled, int]:
        """Return the rows of a batch, and the step before they were asked for."""
        step = self.dense.global_step
        return self.lookup.pull(batch.columns), step

    def _send_dense(self, batch: Batch) -> None:
        gradients, known = self.dense.packed(key_of(batch)), self._known_step
        with self._counts:
            self._num_behind += 1
        self._in_turn(lambda: self._step_weights(gradients, known), batch)
        if self._ahead is None:
            self.dense.assign()

    def _step_weights(self, gradients: PackedGradients, known_step: int) -> None:
        step = self.dense.send(gradients)
        with self._counts:
            self._pushed_step = step
            self._num_behind -= 1
        # Steps between the values that this batch was computed with and its push: of others, and own ones before it.
        self._staleness.append(max(0, step - known_step - 1))

    def _in_turn(self, call: Callable[[], None], batch: Batch) -> None:
        """Carry out what sends something of a batch, here or in the background."""
        if self._ahead is None:
            call()
        else:
            self._ahead.lane.submit(call, doing=f"pushing {batch.name}")

    def _read_step(self) -> None:
        with self._counts:
            self.global_step = self._pushed_step + self._num_behind

    def _position_after(self, batch: Batch) -> dict[str, Any]:
        return super()._position_after(batch) if self._ahead is None else self._ahead.position()

    def _make_tables(self, config: StateConfig) -> MultiTable:
        self.servers = self._connect(config)
        return cast(MultiTable, self.servers.tables(self.plan))

    def _connect(self, config: StateConfig) -> Servers:
        """Return the servers, ready for clients of this plan."""
        raise NotImplementedError


def push_behind(push: Callable[[], object], pulled: Pulled, place: str) -> None:
    """Push rows where no caller knows which batch failed."""
    try:
        push()
    except ValueError as error:
        failure = push_failure(error, pulled, place)
        if failure is error:
            raise
        raise failure from error


def push_named(pulled: Pulled, batch: Batch, *, global_step: int, time: int) -> None:
    """Step the rows of a batch on servers, which know it by its place in the data."""
    assert pulled.row_gradients is not None
    plan = cast(RemoteBatchPlan, pulled.batch_plan)
    plan.apply_gradients(pulled.row_gradients(), global_step=global_step, time=time, key=key_of(batch))


def key_of(batch: Batch) -> BatchKey | None:
    """Return what servers know a batch by; None for one without events of its own."""
    if batch.first == batch.last:
        return None
    return BatchKey(key_name(batch.partition), batch.first, batch.last)


def key_name(partition: str) -> str:
    """Return what servers call a partition."""
    if len(partition.encode()) <= MAX_PARTITION_BYTES:
        return partition
    return hashlib.sha256(partition.encode()).hexdigest()  # the path of a file, say
