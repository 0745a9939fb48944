"""run_online: the trainer of a live system."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from monolith.checkpoint import ModelDirOwner
from monolith.data import EventLogSource
from monolith.errors import FencedError, PlanMismatchError
from monolith.export.dense_graph import dense_weights
from monolith.hooks import Hook
from monolith.model import MonolithModel
from monolith.parallel import SyncLoop, SyncSender, SyncSettings
from monolith.train.config import RunConfig, require_one_process
from monolith.train.hooks.standard import standard_hooks
from monolith.train.loop import RunResult, Trainer
from monolith.train.online.exporter import Exporter
from monolith.train.online.status_file import StatusFile
from monolith.train.online.step_gate import StepGate
from monolith.train.saving.starting_point import open_state
from monolith.train.state import TrainState
from monolith.wire import TlsConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class OnlineSettings:
    """How often an online trainer does what."""

    snapshot_seconds: float = 5.0
    """A crash repeats at most so many seconds of training; nothing is lost or trained on twice."""

    sync_seconds: float = 0.5
    """What changed goes to the servers this often."""

    export_seconds: float = 60.0
    """A version is exported this often, besides the one at the start."""

    keep_exports: int = 3

    metric_window: int = 20_000
    """Predictions over which AUC and log loss are computed."""

    status_path: str | Path | None = None
    """JSON file that tells how training goes, about once a second; it appears when the first version is there."""

    seed: int = 0

    tls: TlsConfig | None = None
    """Certificates for the servers; without them they must be on this machine."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        for name in ("snapshot_seconds", "sync_seconds", "export_seconds", "keep_exports", "metric_window"):
            if not getattr(self, name) > 0:
                raise ValueError(f"OnlineSettings: {name} must be positive, got {getattr(self, name)}")


def run_online(
    model: type[MonolithModel] | MonolithModel,
    *,
    log_path: str | Path,
    model_dir: str | Path,
    export_base: str | Path,
    name: str,
    sync_targets: Sequence[str] = (),
    batch_size: int = 512,
    params: Any = None,
    max_steps: int | None = None,
    hooks: Sequence[Hook] = (),
    settings: OnlineSettings | None = None,
    config: RunConfig | None = None,
) -> RunResult:
    """Train on a log as it grows until SIGTERM, Ctrl-C or `max_steps`; blocks, and wants a process of its own.

    Goes on exactly where the newest snapshot was taken, unless `config` says otherwise: with `mirror_dir`,
    `restore_dir`, `restore_ckpt`, `clear_nn` and the rest as an `Estimator` does; a model that starts from another
    folder reads the log from its begin. Writes a version for servers at the start and now and then,
    sends them what changed in between, and leaves a snapshot at the end. Servers that are away get it later.

    Args:
        model: what to train; a class is called with `params` after seeding.
        log_path: folder of the event log, which must exist.
        model_dir: folder of the snapshots.
        export_base: folder of the versions to serve.
        name: what requests call the model.
        sync_targets: where servers take deltas ("127.0.0.1:7001", "unix:/path").
        batch_size: events per step.
        params: for the model class.
        max_steps: end after so many steps in all runs together.
        hooks: who else wants to watch.
        settings: how often to do what.
        config: other settings of the run, as `Estimator` takes them: they add the same hooks, see `standard_hooks`,
            and say where to start. Those that are among `settings` or the arguments count as said there.

    Raises:
        FencedError: a later trainer of this model has taken over its servers.
        NotImplementedError: `config` asks for several processes, or a GPU.
    """
    settings = OnlineSettings() if settings is None else settings
    torch.set_num_threads(1)  # batches are small: a second thread would mostly wait, and servers want the other cores
    runner = replace(
        RunConfig() if config is None else config,
        model_dir=model_dir,
        save_checkpoints_secs=settings.snapshot_seconds,
        save_checkpoints_steps=None,
        metric_window=settings.metric_window,
        seed=settings.seed,
    ).to_runner_config()
    require_one_process(runner)
    watching = [*standard_hooks(runner, name), *hooks]
    for hook in watching:
        hook.begin()
    with ExitStack() as cleanup:
        cleanup.enter_context(ModelDirOwner(model_dir))
        source = EventLogSource(log_path, batch_size=batch_size, follow=True)
        cleanup.callback(source.close)
        state = TrainState(
            _made(model, params, settings.seed),
            source,
            evict_every_seconds=runner.evict_every_seconds,
            event_time_jump_seconds=runner.event_time_jump_seconds,
            event_time_jump_events=runner.event_time_jump_events,
            fused_layout=runner.enable_fused_layout,
        )
        gate = StepGate()
        exporter = Exporter(
            state,
            export_base,
            name=name,
            gate=gate,
            every_seconds=settings.export_seconds,
            keep=settings.keep_exports,
            skip_zero_embedding=runner.skip_zero_embedding_when_serving,
        )
        open_state(state, runner)
        # Before the first version is written: its changes are followed from here on, so whoever loads it misses none.
        sync_settings = SyncSettings(
            request_timeout_seconds=10.0,
            tls=settings.tls,
            skip_zero_embedding=runner.skip_zero_embedding_when_serving,
        )
        sync = _ServerSync(state, gate, sync_targets, sync_settings, settings.sync_seconds)
        cleanup.callback(sync.close)
        exporter.number_by(lambda: sync.sender.sequence)
        exporter.write()
        watching.append(gate)
        if settings.status_path is not None:
            watching.append(StatusFile(settings.status_path, state, sequence=lambda: sync.sender.sequence))
        with sync.loop, exporter:
            result = Trainer(state, runner, hooks=watching, sync=sync.after_step).run(max_steps)
        sync.push_last()
        return result


class _ServerSync:
    """Keeps the servers of a training state up to date."""

    def __init__(
        self,
        state: TrainState,
        gate: StepGate,
        targets: Sequence[str],
        settings: SyncSettings,
        every_seconds: float,
    ) -> None:
        self._state = state
        self._gate = gate
        self._watermark: dict[str, int] = {}
        self._note_position()
        self.sender = SyncSender(
            state.tables,
            plan_hash=state.plan.hash,
            generation=state.generation,
            targets=targets,
            dense_weights=self._weights,
            watermark=lambda: self._watermark,
            settings=settings,
        )
        self.loop = SyncLoop(self.sender, every_seconds, max_pause_seconds=2.0)
        self._has_targets = bool(targets)

    def after_step(self, state: TrainState) -> None:
        """Note how far training is; a trainer that was replaced must not go on."""
        self._note_position()
        if self._has_targets and not self.loop.running:
            raise self.loop.last_error or RuntimeError("the pushes to the servers ended by themselves")

    def push_last(self) -> None:
        """Bring servers that can be reached to the very end of training."""
        try:
            self.sender.push_once()  # a server that cannot be reached is in its report, not an error here
        except (FencedError, PlanMismatchError):
            return  # somebody else serves now; the snapshot is written, and that was all

    def close(self) -> None:
        """Close the connections."""
        self.sender.close()

    def _note_position(self) -> None:
        position = sum(self._state.offsets.values())
        self._watermark = {"event_seq": position - 1, "event_time": self._state.clock.now}

    def _weights(self) -> tuple[int, Mapping[str, Tensor]]:
        with self._gate.between_steps():
            arrays = dense_weights(self._state.model)
            version = self._state.global_step
        return version, {name: torch.from_numpy(array) for name, array in arrays.items()}


def _made(model: type[MonolithModel] | MonolithModel, params: Any, seed: int) -> MonolithModel:
    if not isinstance(model, type):
        return model
    torch.manual_seed(seed)
    return model(params)
