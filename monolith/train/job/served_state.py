"""ServedState: a training state whose rows and dense weights are on parameter servers."""

import hashlib
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, cast

from monolith.data import Batch, Source
from monolith.embedding import MultiTable
from monolith.model import LookupPlan, MonolithModel, Pulled
from monolith.parallel import BatchKey, RemoteTables, RetryConfig
from monolith.parallel.batch_key import MAX_PARTITION_BYTES
from monolith.parallel.remote_dense import RemoteDense
from monolith.parallel.remote_plan import RemoteBatchPlan
from monolith.train.state import TrainState
from monolith.train.state.train_state import StateConfig
from monolith.wire import SharedSecret, TlsConfig

_RECENT_STEPS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Servers:
    """The parameter servers of a generation, and how to reach them."""

    addresses: Sequence[str]
    generation: int
    secret: SharedSecret = field(repr=False)
    tls: TlsConfig | None = None
    retry: RetryConfig = field(default_factory=RetryConfig)

    def tables(self, plan: LookupPlan) -> RemoteTables:
        """Connect to the tables of a plan."""
        return RemoteTables(
            plan.tables(),
            self.addresses,
            plan_hash=plan.hash,
            generation=self.generation,
            secret=self.secret,
            tls=self.tls,
            retry=self.retry,
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
        )


class ServedState(TrainState):
    """A worker's view of a state that several workers train; pushes carry the place of their batch in the data."""

    dense: RemoteDense

    def __init__(self, model: MonolithModel, source: Source, config: StateConfig) -> None:
        """Make the plan, and connect to the servers that `_connect` returns."""
        super().__init__(model, source, config)
        self._ends: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._staleness: deque[int] = deque(maxlen=_RECENT_STEPS)

    def push(self, pulled: Pulled, batch: Batch, time: int) -> None:
        """Step the rows of a batch, on the servers that have not done so."""
        push_named(pulled, batch, global_step=self.global_step, time=time)

    def step_dense(self, batch: Batch) -> None:
        """Let the owners of the dense weights step them, and take their new values."""
        steps = 0

        def step(closure: object = None) -> None:
            nonlocal steps
            steps += 1
            if steps > 1:
                raise ValueError(
                    f"{type(self.model).__name__} steps its optimizer twice for a batch; parameter servers know a "
                    "batch by its place in the data, and step once"
                )
            self.dense.step(key_of(batch))

        if self.optimizer is not None:
            # The model decides how to step, such as after clipping; the step itself happens elsewhere.
            self.optimizer.step = step  # type: ignore[method-assign, assignment]
            try:
                self.model.dense_step(self.optimizer)
            finally:
                del self.optimizer.step
        if not steps:  # nothing to step, but the batch counts
            self.model.zero_grad()
            self.dense.step(key_of(batch))

    def count(self, batch: Batch) -> None:
        """Note the position; steps are counted by the servers, for all workers."""
        known = self.global_step
        super().count(batch)
        self.global_step = self.dense.global_step
        self._ends.append(time.monotonic())
        # Steps of others between the values that this batch was computed with and its push.
        self._staleness.append(max(0, self.global_step - known - 1))

    def dense_held(self) -> AbstractContextManager[int]:
        """Hold the newest weights of the owners."""
        return self.dense.held()

    def figures(self) -> dict[str, Any]:
        """Return what people may want to know of this worker."""
        seconds = self._ends[-1] - self._ends[0] if len(self._ends) > 1 else 0.0
        return {
            "global_step": self.global_step,
            "steps_per_second": round((len(self._ends) - 1) / seconds, 2) if seconds else 0.0,
            "staleness": max(self._staleness, default=0),
            "retries": cast(RemoteTables, self.tables).servers.num_retries,
        }

    def can_be_saved_after(self, error: Exception) -> bool:
        """Return whether the servers are there."""
        return not isinstance(error, ConnectionError | TimeoutError)

    def close(self) -> None:
        """Close the connections."""
        cast(RemoteTables, self.tables).close()
        if hasattr(self, "dense"):
            self.dense.close()

    def _make_tables(self, config: StateConfig) -> MultiTable:
        self.servers = self._connect(config)
        return cast(MultiTable, self.servers.tables(self.plan))

    def _connect(self, config: StateConfig) -> Servers:
        """Return the servers, ready for clients of this plan."""
        raise NotImplementedError


def push_named(pulled: Pulled, batch: Batch, *, global_step: int, time: int) -> None:
    """Step the rows of a batch on servers, which know it by its place in the data."""
    assert pulled.row_gradients is not None
    plan = cast(RemoteBatchPlan, pulled.batch_plan)
    plan.apply_gradients(pulled.row_gradients(), global_step=global_step, time=time, key=key_of(batch))


def key_of(batch: Batch) -> BatchKey | None:
    """Return what servers know a batch by; None for one without events of its own."""
    if batch.first == batch.last:
        return None
    name = batch.partition
    if len(name.encode()) > MAX_PARTITION_BYTES:  # the path of a file, say
        name = hashlib.sha256(name.encode()).hexdigest()
    return BatchKey(name, batch.first, batch.last)
