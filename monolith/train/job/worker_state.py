"""WorkerState: what a worker other than the chief trains on."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from monolith.data import Batch, Source
from monolith.model import MonolithModel
from monolith.parallel import RetryConfig
from monolith.parallel.coordination import WorkerLink
from monolith.parallel.coordination.worker_link import REPORT_SECONDS
from monolith.train.job.place import JobPlace
from monolith.train.job.served_state import ServedState, Servers
from monolith.train.state.train_state import StateConfig


class WorkerState(ServedState):
    """A worker's part of a job, from its join to its end; it begins where the chief says."""

    def __init__(
        self,
        model: MonolithModel,
        source: Source,
        config: StateConfig,
        *,
        link: WorkerLink,
        place: JobPlace,
        settings: Mapping[str, Any],
        retry: RetryConfig,
        ahead: int | None = None,
        half: bool = False,
    ) -> None:
        """Join the job, as soon as its chief is ready, and go to this worker's position.

        With `half`, rows and their gradients travel as fp16.
        """
        self.link, self._place, self._settings, self._retry, self._half = link, place, settings, retry, half
        self._figures: dict[str, Any] = {}
        self._next_figures = 0.0
        super().__init__(model, source, config, ahead)
        self.dense = self.servers.dense(self.plan)
        self.dense.join(model, self.optimizer)
        self.fetch_dense()
        self.pause.is_held_by_others = lambda: link.is_paused
        if self._ahead is not None:
            link.before_pause = self._ahead.lane.settle
        if self.position is not None:
            source.restore(self.position["stream"])
            self.stream = dict(self.position["stream"])
            self.offsets = dict(self.position.get("offsets", {}))
            if "clock" in self.position:
                self.clock.restore(self.position["clock"])

    def count(self, batch: Batch) -> None:
        """Note the position, and report it once everything before it is pushed."""
        super().count(batch)
        position = {"stream": self.stream, "offsets": dict(self.offsets), "clock": self.clock.state()}
        self._in_turn(lambda: self._record(position), batch)

    def evict_if_due(self) -> None:
        """Do nothing: the chief removes expired rows."""

    def wait_for_others(self, ending: str, *, interrupted: bool, tick: Callable[[], None]) -> None:
        """Wait until the job is over: until then it may go back, and this worker with it.

        A worker that was interrupted alone leaves: its part is not done, and another process takes it up.
        """
        if interrupted and not self.link.stops:
            return
        self.pause.end_part()
        self.link.finish(ending)

    def _record(self, position: dict[str, Any]) -> None:
        now = time.monotonic()
        if now >= self._next_figures:  # no more often than they are sent: small batches take no longer than they do
            self._next_figures = now + REPORT_SECONDS
            self._figures = self.figures()
        self.link.record(position, global_step=self._pushed_step, figures=self._figures)

    def _connect(self, config: StateConfig) -> Servers:
        joined = self.link.join(
            plan_hash=self.plan.hash, settings=self._settings, timeout_seconds=self._place.wait_seconds
        )
        self.position, self.last_step = joined.position, joined.last_step
        return Servers(
            addresses=joined.servers,
            generation=joined.generation,
            secret=self._place.secret,
            tls=self._place.tls,
            retry=self._retry,
            half=self._half,
        )
