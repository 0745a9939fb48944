"""ChiefState: the state of a job as its chief sees it: made or restored, saved at a cut, ended."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from monolith.checkpoint import Saver, Snapshot, claim_generation, random_tensors
from monolith.checkpoint.keep import Retention, SnapshotStore
from monolith.checkpoint.shards import ShardsSaver, load_into_shards
from monolith.checkpoint.shards.notes import notes_of
from monolith.data import Source
from monolith.data.parts import PartSource
from monolith.data.parts.part_source import num_events_in
from monolith.data.source import State
from monolith.embedding import MultiTable
from monolith.model import MonolithModel
from monolith.observe.metric_client import get_cli
from monolith.parallel import RemoteShard, RemoteTables, RetryConfig
from monolith.parallel.coordination import Coordinator, Opening, Position
from monolith.parallel.coordination.server_watch import ServerWatch
from monolith.train.controller.pause import JobPause
from monolith.train.job.place import JobPlace
from monolith.train.job.scale.divided import WORKERS_KEY, divided
from monolith.train.job.scale.scaling import Scaling
from monolith.train.job.scale.settled import ahead_of, check_settled
from monolith.train.job.served_state import ServedState, Servers
from monolith.train.state.restore_config import RestoreConfig
from monolith.train.state.train_state import PARTS_KEY, StateConfig
from monolith.wire import Deadline

SETTLE_SECONDS = 300.0
"""How long `monolith scale` waits for a worker that is lost."""

_SETTLE_PAUSE_SECONDS = 0.2

_IDLE_SECONDS = 3.0
"""After this long without a step, the servers are asked how they are."""

_log = logging.getLogger(__name__)


class _ScaleNowError(Exception):
    """Another number of processes is wanted, while the chief waits for workers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChiefConfig:
    """What a chief needs to know of its job."""

    folder: Path
    num_workers: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What workers must have in common with it."""

    retry: RetryConfig = field(default_factory=RetryConfig)

    partial: bool = False
    """Servers that have their state keep it; only new ones are restored."""

    half: bool = False
    """Rows and their gradients travel as fp16."""

    pause_seconds: float = 30.0
    """A worker that has not paused by then does not hold up a save."""

    ahead: int | None = None
    """Batches whose rows the chief fetches before their turn; None pulls and pushes in turn."""

    end_seconds: float = 1800.0
    """How long it waits for the workers at the end."""


class ChiefState(ServedState):
    """The whole state of a job.

    It begins a generation: workers go back to the positions of the newest snapshot, or to the start. So do the rows and
    weights of all servers; with `partial` only new servers do, and the others skip the batches that they have applied.
    While it saves, workers stand still between two batches, so that rows, weights and positions belong together.
    """

    def __init__(
        self,
        model: MonolithModel,
        source: Source,
        config: StateConfig,
        *,
        place: JobPlace,
        addresses: Sequence[str],
        coordinator: Coordinator,
        job: ChiefConfig,
        scaling: Scaling,
    ) -> None:
        """Take over the servers at these addresses, in the order of their shards."""
        self._place, self._addresses, self._coordinator, self._job = place, addresses, coordinator, job
        self._positions: dict[int, Position | None] = {}
        self._has_position = False
        self._dense_applied: list[dict[str, int]] = []
        self._pause_ms = 0.0
        self.last_step: int | None = None
        """Where the job ends, once workers are let in."""
        self.scaling = scaling
        """The wish for another number of processes."""
        self._kept_cut: ExitStack | None = None
        self._cleanup = ExitStack()
        super().__init__(model, source, config, job.ahead)
        self.pause = JobPause(coordinator, self.drain)

    def open(
        self, model_dir: Any, options: RestoreConfig | None = None, *, start_from: Path | None = None
    ) -> Path | None:
        """Restore everything, let the servers own the dense weights, and be their first client."""
        path = super().open(model_dir, options, start_from=start_from)
        if path is None:
            self._give_dense_away()
        if not self._has_position:
            assert isinstance(self.source, PartSource)
            self.source.begin_anew()
        # Not before: a server that has its state is not restored if this attempt ends and another begins.
        for shard in self.shards:
            shard.mark_initialized()
        cast(RemoteTables, self.tables).connect()
        return path

    def let_workers_in(self, last_step: int | None) -> None:
        """Open the generation: workers begin at the positions of the snapshot."""
        self.last_step = last_step
        self._coordinator.note_status(self._status)
        self._coordinator.open(
            Opening(
                generation=self.servers.generation,
                servers=list(self._addresses),
                plan_hash=self.plan.hash,
                settings=self._job.settings,
                positions={index: one for index, one in self._positions.items() if one is not None},
                last_step=last_step,
                global_step=self.global_step,
            )
        )

    def count(self, batch: Any) -> None:
        """Note the position and how far the job is."""
        super().count(batch)
        self._coordinator.note_step(self.global_step)

    def num_events_of_others(self) -> int:
        """Count the events that workers have reported, and none that this process counts too."""
        own = dict(self.offsets)
        others = [{} if one is None else one.get("offsets", {}) for one in self._coordinator.positions()]
        return num_events_in([own, *others], all_done=not self._coordinator.unfinished) - sum(own.values())

    def event_rate_of_others(self) -> float:
        """Add up what workers have reported; one that is lost trains on none."""
        workers = self._coordinator.status()["workers"][1:]
        return float(sum(one.get("events_per_second", 0.0) for one in workers if one["state"] == "training"))

    def saver(self, model_dir: Path, *, retention: Retention, mirror: SnapshotStore | None = None) -> Saver:
        """Return what saves all shards."""
        return ShardsSaver(model_dir, self.plan, self.shards, retention=retention, mirror=mirror)

    def held(self) -> AbstractContextManager[object]:
        """Hold all workers between two batches."""
        return self._cut() if self._kept_cut is None else nullcontext()

    @property
    def addresses(self) -> Sequence[str]:
        """Where its parameter servers are, in the order of their shards."""
        return self._addresses

    @property
    def num_workers(self) -> int:
        """Workers of the job, the chief included."""
        return self._job.num_workers

    @property
    def is_stopped_for_scaling(self) -> bool:
        """Whether all workers stand still until `release`, at a moment that any number of processes can go on from."""
        return self._kept_cut is not None

    def release(self) -> None:
        """Let workers leave that were stopped for scaling."""
        self._coordinator.request_stop()
        if self._kept_cut is not None:
            self._kept_cut.close()

    def moment(self, *, dense_only: bool = False) -> dict[str, Any]:
        """Return what is saved besides the rows; workers stand still."""
        self.fetch_dense()
        common = {"step": self.global_step, "stream": self._streams(), "generation": self.generation}
        if dense_only:
            return {**common, "dense": self.dense.tensors(), "epoch": self.epoch, "extra": {"dense_only": True}}
        self.epoch += 1
        measured = self._saved_metrics if self.metrics is None else self.metrics.tensors()
        workers = [self._positions.get(index) or {} for index in range(1, self._job.num_workers)]
        extra = {
            "clock": self.clock.state(),
            "offsets": self._all_offsets(),
            "hash_columns": [name for name, kind in self.source.schema.types.items() if kind.is_hash],
            WORKERS_KEY: [{key: one[key] for key in ("clock", "offsets") if key in one} for one in workers],
        }
        # The servers add the dense weights, which they own.
        return {**common, "dense": {**random_tensors(), **measured}, "epoch": self.epoch, "extra": extra}

    def wait_for_others(self, ending: str, *, interrupted: bool, tick: Callable[[], None]) -> None:
        """Wait until all workers have finished; saves go on meanwhile. For another shape, stop them where they are."""

        def check() -> None:
            if self.scaling.wanted is not None:
                raise _ScaleNowError
            if self.stop_requested() and not self._coordinator.stops:
                self._coordinator.request_stop()

        def check_and_save() -> None:
            check()
            self.fetch_dense()
            tick()

        self.pause.stand_still()  # it takes no further step
        try:
            check()
            late = self._coordinator.wait_for_workers(timeout_seconds=self._job.end_seconds, check=check_and_save)
        except _ScaleNowError:
            self._stop_for_scaling()
            return
        if late:
            _log.warning("workers %s did not finish within %g s", late, self._job.end_seconds)
        self.fetch_dense()

    def _stop_for_scaling(self) -> None:
        """Stop all workers at a moment when servers have applied what the positions say, no more and no less.

        A worker that is lost is waited for: what it pushed last is not known until it has repeated it.
        """
        deadline, late, ahead = Deadline.after(min(SETTLE_SECONDS, self._job.end_seconds)), [], []
        while not deadline.expired:
            with ExitStack() as cut:
                cut.enter_context(self._cut())
                late = self._coordinator.unpaused
                ahead = [] if late else ahead_of(self._all_offsets(), self._applied())
                if not late and not ahead:
                    self._kept_cut = cut.pop_all()
                    self.fetch_dense()
                    self.ending = f"stopped at step {self.global_step} for {self.scaling.wanted}, saved"
                    return
            time.sleep(_SETTLE_PAUSE_SECONDS)
        reason = f"workers {late} did not come back" if late else f"nobody has repeated the batches of {ahead[:3]}"
        reason += f" within {min(SETTLE_SECONDS, self._job.end_seconds):g} s"
        self.scaling.call_off(self.global_step, reason)
        raise TimeoutError(f"the job goes on with its present number of processes, since {reason}")

    def _applied(self) -> list[Mapping[str, int]]:
        return [ends for shard in self.shards for ends in shard.applied()]

    def _all_offsets(self) -> dict[str, int]:
        """Return how far each partition was read, by whichever worker."""
        offsets = dict(self.offsets)
        for one in self._positions.values():
            offsets |= (one or {}).get("offsets", {})
        return offsets

    stop_requested: Callable[[], bool] = staticmethod(lambda: False)
    """Whether somebody asked this process to end."""

    def watch_servers(self, on_loss: Callable[[Exception], None]) -> None:
        """Call `on_loss` from another thread if a server is lost while the chief takes no steps."""

        def is_idle() -> bool:
            return time.monotonic() - (self._ends[-1] if self._ends else began) > _IDLE_SECONDS

        began = time.monotonic()
        self._cleanup.enter_context(ServerWatch(self.shards, is_idle=is_idle, on_loss=on_loss))

    def shut_down(self) -> None:
        """Let the servers end."""
        for shard in self.shards:
            try:
                shard.shut_down()
            except Exception as error:  # noqa: BLE001  it is gone already, or will be killed
                _log.warning("a parameter server could not be asked to end: %s", error)

    def close(self) -> None:
        """Close the connections."""
        self._cleanup.close()
        super().close()

    def _connect(self, config: StateConfig) -> Servers:
        place, job, count = self._place, self._job, len(self._addresses)
        servers = Servers(
            addresses=self._addresses,
            # Before anything is restored: clients of earlier generations are cut off by it.
            generation=claim_generation(job.folder, max(1, config.first_generation)),
            secret=place.secret,
            tls=place.tls,
            retry=job.retry,
            half=job.half,
        )
        self.shards = [
            self._cleanup.enter_context(
                RemoteShard(address, secret=place.secret, tls=place.tls, retry=job.retry, given_up=servers.given_up)
            )
            for address in self._addresses
        ]
        self._new: list[int] = []
        for index, shard in enumerate(self.shards):
            status = shard.init(
                self.plan,
                index,
                count,
                generation=servers.generation,
                anew=not job.partial,
                initial_capacity=config.initial_capacity // count,
            )
            self._new += [] if status["is_initialized"] else [index]
        return servers

    def _make_tables(self, config: StateConfig) -> MultiTable:
        self.servers = self._connect(config)
        # The servers let nobody in before they have their state.
        return cast(MultiTable, self.servers.tables(self.plan, connects=False))

    def _claim_generation(self, folder: Path) -> int:
        return self.servers.generation

    def _load(self, path: Path, options: RestoreConfig, *, is_own: bool) -> Snapshot:
        snapshot = load_into_shards(
            path,
            [self.shards[index] for index in self._new],
            plan=self.plan,
            drop_not_finite=options.drop_not_finite,
            positions=is_own,
        )
        count = len(self.shards)
        if is_own:
            workers = self._job.num_workers
            check_settled(path, snapshot.extra, snapshot.stream, num_ps=count, num_workers=workers)
        self._dense_applied = [
            notes_of(path, snapshot.extra, (index, count), positions=is_own).dense_applied for index in range(count)
        ]
        return snapshot

    def _restore(self, path: Path, options: RestoreConfig, *, cleared: bool, is_own: bool) -> None:
        super()._restore(path, options, cleared=cleared, is_own=is_own)
        self._give_dense_away()

    def _give_dense_away(self) -> None:
        """Let new servers own the dense weights that the model has now, and take those of the others."""
        self.dense = self._cleanup.enter_context(self.servers.dense(self.plan))
        for shards in [[index] for index in self._new] or [[]]:
            applied = self._dense_applied[shards[0]] if self._dense_applied and shards else {}
            self.dense.create(self.model, self.optimizer, global_step=self.global_step, applied=applied, shards=shards)
        self.fetch_dense(kept=True)

    def _go_to(self, path: Path, snapshot: Snapshot, offsets: dict[str, int]) -> None:
        (own, *others), known = divided(snapshot, self._job.num_workers, self.redivided)
        self._has_position = True
        if own is not None:
            self.source.restore(own)
            self.stream = dict(own)
        self._positions = {
            index: None if stream is None else {"stream": stream, **known[index - 1]}
            for index, stream in enumerate(others, 1)
        }
        theirs = {name for one in known for name in one.get("offsets", {})}
        self.offsets = {name: end for name, end in offsets.items() if name not in theirs}

    def redivided(self, streams: Sequence[State | None], num_workers: int) -> list[State | None]:
        """Return where each of another number of workers begins; ValueError if the data cannot be given out anew."""
        assert isinstance(self.source, PartSource)
        return self.source.redivide(streams, num_workers)

    def _streams(self) -> dict[str, Any]:
        if self._job.num_workers == 1:
            return dict(self.stream)
        others = [self._positions.get(index) for index in range(1, self._job.num_workers)]
        return {PARTS_KEY: [self.stream, *(None if one is None else one["stream"] for one in others)]}

    @contextmanager
    def _cut(self) -> Iterator[None]:
        self.drain()
        began = time.monotonic()
        with self._coordinator.cut(timeout_seconds=self._job.pause_seconds) as positions:
            # Before workers were let in, those of the snapshot count.
            self._positions = {**self._positions, **{index: one for index, one in positions.items() if one is not None}}
            yield
        self._pause_ms = 1000 * (time.monotonic() - began)
        get_cli().emit_timer("save_pause_time", self._pause_ms / 1000)

    def _status(self) -> dict[str, Any]:
        return {
            "chief": {"index": 0, "state": "paused" if 0 in self.pause.workers()[0] else "training", **self.figures()},
            "saved_step": self.saved_step,
            "pause_ms": round(self._pause_ms, 1),
            **self.scaling.status(),
        }
