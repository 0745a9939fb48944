"""run: puts a training run together. Every way to train a model ends here."""

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module

from monolith.checkpoint import ModelDirOwner
from monolith.data import Source
from monolith.data.input_config import InputConfig, input_settings
from monolith.data_service import ServiceSource
from monolith.hooks import Hook
from monolith.model import Mode, MonolithModel
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import RunSettings
from monolith.train.hooks.live_view import LiveView
from monolith.train.hooks.standard import standard_hooks
from monolith.train.hooks.status_file import StatusFile
from monolith.train.loop import RunResult, Sync, Trainer
from monolith.train.model_dump import MODEL_DUMP_NAME, DumpUtils
from monolith.train.saving.save_listener import SaveListener
from monolith.train.state import TrainState, open_state


def run(
    model: MonolithModel,
    config: RunnerConfig,
    *,
    source: Source | None = None,
    steps: int | None = None,
    max_steps: int | None = None,
    hooks: Sequence[Hook] = (),
    sync: Sync | None = None,
    saving_listeners: Sequence[SaveListener] = (),
    guard_listeners: Sequence[SaveListener] = (),
) -> RunResult:
    """Train a model: restore or start, then batch after batch, with snapshots, hooks, and servers kept up to date.

    Live training is the same run with an export base and targets in its settings, see `LiveConfig`. It writes a version
    for servers before the first step, and then sends every change.

    Args:
        model: what to train.
        config: the settings of the run.
        source: where batches come from; if not given, the data service that settings name, or the model's own source.
        steps: end after this many steps of this run.
        max_steps: end after this many steps of all runs together.
        hooks: watch the run after those that settings ask for, and before the model's own.
        sync: called after every step.
        saving_listeners: called before each save, and after each one that succeeded.
        guard_listeners: called before each save, and after it however it ended.
    """
    settings = RunSettings.of(config, model)  # first: what it refuses must not leave a trace
    settings.process.apply()
    view = LiveView(every_steps=settings.watch.log_steps)
    watching = [*standard_hooks(settings.watch), *hooks, view]
    begun = _begin([*watching, *model.training_hooks])
    folder = settings.saving.folder
    with ExitStack() as cleanup:
        cleanup.enter_context(ModelDirOwner(folder))
        state = TrainState(model, training_source(model, settings.input) if source is None else source, settings.state)
        _check_export(state, is_live=settings.live is not None)
        # Some models add their hooks when their model function first runs, in the dry run above.
        _begin([hook for hook in model.training_hooks if hook not in begun])
        watching += model.training_hooks
        open_state(state, folder, settings.restore, mirror_dir=settings.saving.mirror_dir)
        if settings.watch.model_dump:
            dump = DumpUtils(enable=True)
            dump.record_params(model)
            dump.add_config(config)
            dump.add_plan(state.plan)
            dump.dump(folder / MODEL_DUMP_NAME)
        serving = None
        if settings.live is not None:
            # Loaded here: exports need packages that other runs do without.
            serving = cleanup.enter_context(
                import_module("monolith.train.live.serving").LiveServing(state, settings.live)
            )
            watching.append(serving.gate)
        if settings.watch.status_path:
            sequence = None if serving is None else lambda: serving.sequence
            watching.append(StatusFile(settings.watch.status_path, state, sequence=sequence))
        trainer = Trainer(
            state,
            settings.loop,
            settings.saving,
            hooks=watching,
            syncs=[one for one in (sync, None if serving is None else serving.after_step) if one is not None],
            saving_listeners=saving_listeners,
            guard_listeners=guard_listeners,
        )
        return trainer.run(_last_step(state, steps, max_steps))


def _check_export(state: TrainState, *, is_live: bool) -> None:
    """Say before the first step what an export would say after the last: as an error if this run exports."""
    if not state.obstacles:
        return
    reason = f"{type(state.model).__name__} cannot be exported: {'; '.join(state.obstacles)}"
    if is_live:
        raise ValueError(f"{reason}. Leave out export_base and sync_targets to train it without servers")
    warnings.warn(f"{reason}. Training, evaluate and predict do not need it", stacklevel=3)


def _begin(hooks: Sequence[Hook]) -> Sequence[Hook]:
    for hook in hooks:
        hook.begin()
    return hooks


def training_source(model: MonolithModel, config: InputConfig) -> Source:
    """Return where a model's batches come from: the data service that settings name, else the model's own source."""
    if config.use_dataservice:
        assert config.dispatcher is not None
        return ServiceSource(config.dispatcher, trainer=f"trainer-{type(model).__name__}")
    with input_settings(config):
        return model.input_fn(Mode.TRAIN)


def _last_step(state: TrainState, steps: int | None, max_steps: int | None) -> int | None:
    limits = [] if max_steps is None else [max_steps]
    if steps is not None:
        limits.append(state.global_step + steps)
    return min(limits, default=None)
