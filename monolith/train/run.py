"""run: puts a training run together. Every way to train a model ends here."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib import import_module

from monolith.checkpoint import ModelDirOwner
from monolith.data import Source
from monolith.data.input_config import InputConfig
from monolith.data.rewind import rewound
from monolith.data_service import ServiceSource
from monolith.data_service.trainer.split_puller import SPLITS_IN_FLIGHT
from monolith.features.kept_strings import STRINGS_NAME, keep_strings
from monolith.hooks import Hook
from monolith.model import Mode, MonolithModel
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import RunSettings
from monolith.train.hooks.live_view import LiveView
from monolith.train.hooks.standard import standard_hooks
from monolith.train.hooks.status_file import StatusFile
from monolith.train.live.parameter_sync_hook import ParameterSyncHook
from monolith.train.live.takeover import first_generation
from monolith.train.loop import RunResult, Sync, Trainer
from monolith.train.made_model import make_source
from monolith.train.model_dump import dump_model
from monolith.train.saving.save_listener import SaveListener
from monolith.train.state import StateConfig, TrainState, open_state

MakeState = Callable[[MonolithModel, Source, StateConfig], TrainState]


def run(
    model: MonolithModel,
    config: RunnerConfig,
    *,
    source: Source | None = None,
    steps: int | None = None,
    max_steps: int | None = None,
    hooks: Sequence[Hook] = (),
    syncs: Sequence[Sync] = (),
    listeners: Sequence[SaveListener] = (),
    guards: Sequence[SaveListener] = (),
    make_state: MakeState = TrainState,
) -> RunResult:
    """Train a model: restore or start, then batch after batch, with snapshots, hooks, and servers kept up to date.

    With a `LiveConfig` in its settings, it first writes a version for servers, and sends them every change.

    Args:
        model: what to train.
        config: the settings of the run.
        source: where batches come from; by default, see `training_source`.
        steps: end after this many steps of this run.
        max_steps: end after this many steps of all runs together.
        hooks: run after those that settings ask for, and before the model's own.
        syncs: called after every step.
        listeners: called before each save and after each successful one.
        guards: called before each save and after it, even if it failed.
        make_state: makes what is trained; its rows and weights may be on other processes.
    """
    settings = RunSettings.of(config, model)  # first: what it refuses must not leave a trace
    if make_state is TrainState and (settings.job.is_job or settings.job.num_ps):
        raise NotImplementedError(
            f"num_ps={settings.job.num_ps}, num_workers={settings.job.num_workers}: this run keeps its rows in this "
            "process and sends what it learns to servers; train on parameter servers with Estimator.train"
        )
    if settings.live is None and any(isinstance(hook, ParameterSyncHook) for hook in hooks):
        raise ValueError(
            "a ParameterSyncHook sends what a live run learns; set export_base, the folder of its versions"
        )
    settings.process.apply()
    view = LiveView(every_steps=settings.watch.log_steps, folder=settings.saving.folder)
    watching = [*standard_hooks(settings.watch), *hooks, view]
    begun = _begin([*watching, *model.training_hooks])
    with ExitStack() as cleanup:
        cleanup.enter_context(ModelDirOwner(settings.saving.folder))
        if settings.watch.keep_strings:
            # First: sources of arrays make their ids when they are made.
            cleanup.enter_context(keep_strings(settings.saving.folder / STRINGS_NAME))
        if source is None:
            source = training_source(model, settings.input)
            cleanup.enter_context(rewound(source))  # another run may share it
        state = make_state(model, source, _state_config(settings))
        _check_export(state, exports=settings.live is not None or settings.exports is not None)
        # Some models add their hooks when their model function first runs, in the dry run above.
        _begin([hook for hook in model.training_hooks if hook not in begun])
        watching += model.training_hooks
        open_state(state, settings.saving.folder, settings.restore, mirror_dir=settings.saving.mirror_dir)
        if settings.watch.model_dump:
            dump_model(settings.saving.folder, model, config, state.plan)
        live_hooks, live_syncs = _live_training(state, settings, cleanup, watching)
        watching, syncs = [*watching, *live_hooks], [*syncs, *live_syncs]
        listeners = [*listeners, *_exports_of_saves(state, settings)]
        trainer = Trainer(
            state, settings.loop, settings.saving, hooks=watching, syncs=syncs, listeners=listeners, guards=guards
        )
        last_step = _last_step(state, steps, max_steps)
        state.let_workers_in(last_step)
        return trainer.run(last_step)


def _state_config(settings: RunSettings) -> StateConfig:
    """Return how the state is made; that of a live run follows on all who sent to its servers before."""
    if settings.live is None:
        return settings.state
    return replace(settings.state, first_generation=first_generation(settings.live.export_base))


def _check_export(state: TrainState, *, exports: bool) -> None:
    """Say before the first step what an export would say after the last: as an error if this run exports."""
    if not state.obstacles:
        return
    reason = f"{type(state.model).__name__} cannot be exported: {'; '.join(state.obstacles)}"
    if exports:
        raise ValueError(f"{reason}. Without export_base, sync_targets and export_when_saving it can be trained")
    warnings.warn(f"{reason}. Training, evaluate and predict do not need it", stacklevel=3)


def _live_training(
    state: TrainState, settings: RunSettings, cleanup: ExitStack, given: Sequence[Hook]
) -> tuple[Sequence[Hook], Sequence[Sync]]:
    """Start what keeps servers up to date; return its hooks and syncs, with the hook that reports the run."""
    hooks: list[Hook] = []
    syncs: list[Sync] = []
    sequence = None
    if settings.live is not None:
        # Loaded here: exports need packages that other runs do without.
        live = import_module("monolith.train.live.serving")
        find = [partial(getattr, hook, "targets") for hook in given if isinstance(hook, ParameterSyncHook)]
        serving = cleanup.enter_context(live.LiveServing(state, settings.live, find=find))
        hooks.append(serving.gate)
        syncs.append(serving.after_step)
        sequence = lambda: serving.sequence  # noqa: E731
    if settings.watch.status_path:
        hooks.append(StatusFile(settings.watch.status_path, state, sequence=sequence))
    return hooks, syncs


def _exports_of_saves(state: TrainState, settings: RunSettings) -> Sequence[SaveListener]:
    """Return the listener that writes a version for servers with every save, if settings ask for it."""
    if settings.exports is None or settings.live is not None:  # live training writes versions by itself
        return []
    return [import_module("monolith.train.live.exporter").ExportListener(state, settings.exports)]


def _begin(hooks: Sequence[Hook]) -> Sequence[Hook]:
    for hook in hooks:
        hook.begin()
    return hooks


def training_source(model: MonolithModel, config: InputConfig) -> Source:
    """Return where a model's batches come from: the data service that settings name, else the model's own source."""
    if config.use_dataservice and config.dispatcher is not None:
        # Each worker's own splits may come in any order; shared ones are taken as they are needed.
        at_a_time = config.splits_at_a_time if config.shares_splits else SPLITS_IN_FLIGHT
        return ServiceSource(
            config.dispatcher,
            trainer=f"trainer-{type(model).__name__}",
            shares_splits=config.shares_splits,
            splits_in_flight=at_a_time,
            tls=config.tls,
            secret=config.secret,
        )
    return make_source(model, Mode.TRAIN, config)


def _last_step(state: TrainState, steps: int | None, max_steps: int | None) -> int | None:
    limits = [] if max_steps is None else [max_steps]
    if steps is not None:
        limits.append(state.global_step + steps)
    return min(limits, default=None)
