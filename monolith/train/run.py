"""run: puts a training run together. Every way to train a model ends here."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

from monolith.checkpoint import ModelDirOwner
from monolith.data import Source
from monolith.hooks import Hook
from monolith.model import Mode, MonolithModel
from monolith.train.config import RunnerConfig
from monolith.train.config.task_settings import task_settings
from monolith.train.hooks.live_view import LiveView
from monolith.train.hooks.standard import standard_hooks
from monolith.train.hooks.status_file import StatusFile
from monolith.train.live.live_config import LiveConfig
from monolith.train.loop import RunResult, Sync, Trainer
from monolith.train.model_dump import MODEL_DUMP_NAME, DumpUtils
from monolith.train.saving.save_listener import SaveListener
from monolith.train.saving.starting_point import open_state
from monolith.train.state import TrainState


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

    Live training is the same run with an export base and targets in its settings, see `LiveConfig`: a version for
    servers is there before the first step, and what changed follows.

    Args:
        model: what to train.
        config: the settings of the run.
        source: where batches come from; the model's own for TRAIN if not given.
        steps: end after this many steps of this run.
        max_steps: end after this many steps of all runs together.
        hooks: watch the run after those that settings ask for, and before the model's own.
        sync: called after every step.
        saving_listeners: called before each save, and after each one that succeeded.
        guard_listeners: called before each save, and after it however it ended.
    """
    asked, config = config, task_settings(config, model)
    live = LiveConfig.of(config, model)  # first: what it refuses must not leave a trace
    view = LiveView(every_steps=config.log_step_count_steps)
    watching = [*standard_hooks(config, type(model).__name__), *hooks, view]
    begun = _begin([*watching, *model.training_hooks])
    with ExitStack() as cleanup:
        cleanup.enter_context(ModelDirOwner(config.model_dir))
        state = TrainState(
            model,
            model.input_fn(Mode.TRAIN) if source is None else source,
            evict_every_seconds=config.evict_every_seconds,
            fused_layout=config.enable_fused_layout,
        )
        # Some models add their hooks when their model function first runs, in the dry run above.
        _begin([hook for hook in model.training_hooks if hook not in begun])
        watching += model.training_hooks
        open_state(state, config)
        _dump(state, asked)
        syncs = [] if sync is None else [sync]
        sequence: Callable[[], int] | None = None
        if live is not None:
            # Loaded here: exports need packages that a run without them does not.
            serving = import_module("monolith.train.live.serving").LiveServing(state, live)
            cleanup.enter_context(serving)
            watching.append(serving.gate)
            syncs.append(lambda _: serving.after_step())
            sequence = lambda: serving.sequence  # noqa: E731
        if config.status_path:
            watching.append(StatusFile(config.status_path, state, sequence=sequence))
        trainer = Trainer(
            state,
            config,
            hooks=watching,
            syncs=syncs,
            saving_listeners=saving_listeners,
            guard_listeners=guard_listeners,
        )
        return trainer.run(_last_step(state, steps, max_steps))


def _begin(hooks: Sequence[Hook]) -> Sequence[Hook]:
    for hook in hooks:
        hook.begin()
    return hooks


def _last_step(state: TrainState, steps: int | None, max_steps: int | None) -> int | None:
    limits = [] if max_steps is None else [max_steps]
    if steps is not None:
        limits.append(state.global_step + steps)
    return min(limits, default=None)


def _dump(state: TrainState, config: RunnerConfig) -> None:
    dump = DumpUtils(config.enable_model_dump)
    dump.record_params(state.model)
    dump.add_config(config)
    dump.add_plan(state.plan)
    dump.dump(Path(config.model_dir) / MODEL_DUMP_NAME)
