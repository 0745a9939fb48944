"""Estimator: a model and a configuration, trained with one call."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from monolith.checkpoint import ModelDirOwner, latest_snapshot
from monolith.hooks import Hook
from monolith.model import Mode, MonolithModel
from monolith.train.config import RunConfig
from monolith.train.live_view import LiveView
from monolith.train.loop import RunResult, Sync, Trainer
from monolith.train.state import TrainState
from monolith.train.trained_model import open_trained


class Estimator:
    """Trains a model in this process; a run goes on exactly where the last one in `model_dir` was saved."""

    def __init__(self, model: type[MonolithModel] | MonolithModel, config: RunConfig, *, params: Any = None) -> None:
        """Take a model class, which is called with `params` after seeding, or a model that is already made."""
        self.config = config
        if isinstance(model, type):
            if config.seed is not None:
                torch.manual_seed(config.seed)
            model = model(params)
        self.model: MonolithModel = model

    def train(
        self,
        steps: int | None = None,
        max_steps: int | None = None,
        hooks: Sequence[Hook] = (),
        sync: Sync | None = None,
    ) -> RunResult:
        """Train until the data ends, for `steps` more steps, or to `max_steps` in all, whichever comes first.

        SIGTERM, Ctrl-C and a hook's `request_stop` end it early and in good order. Every end but an error writes a
        snapshot. `sync` is called after every step.
        """
        config = self.config
        _check_counts(steps=steps, max_steps=max_steps)
        _check_hooks(hooks)
        watching = [*hooks, LiveView(every_steps=config.log_step_count_steps)]
        for hook in watching:
            hook.begin()
        with ModelDirOwner(config.model_dir):
            source = self.model.input_fn(Mode.TRAIN)
            state = TrainState(self.model, source, evict_every_seconds=config.evict_every_seconds)
            state.open(config.model_dir)
            limits = [] if max_steps is None else [max_steps]
            if steps is not None:
                limits.append(state.global_step + steps)
            return Trainer(state, config, hooks=watching, sync=sync).run(min(limits, default=None))

    def evaluate(
        self,
        steps: int | None = None,
        hooks: Sequence[Hook] = (),
        *,
        checkpoint_path: str | None = None,
        group_by: str | None = None,
    ) -> dict[str, float]:
        """Return loss and metrics of a snapshot, the newest one if none is named, on the source for EVAL.

        Nothing is changed and nobody is kept from training in `model_dir`. A classification has "auc" and
        "calibration", a regression "mse"; with several heads the names begin with the head's. `loss` is the mean of
        the batches' losses.

        Args:
            steps: batches to look at; all there are if not given.
            hooks: watch it, as they watch training.
            checkpoint_path: folder of another snapshot.
            group_by: a column of ids; adds the AUC within each of its groups, such as within each user.
        """
        _check_counts(steps=steps)
        _check_hooks(hooks)
        trained = open_trained(self.model, self.config.model_dir, checkpoint_path)
        source = self.model.input_fn(Mode.EVAL)
        return trained.evaluate(source, steps=steps, group_by=group_by, hooks=hooks)

    def predict(
        self,
        predict_keys: Sequence[str] | None = None,
        *,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[dict[str, Tensor]]:
        """Yield the predictions of the source for PREDICT by head: of one event at a time, or of whole batches."""
        trained = open_trained(self.model, self.config.model_dir, checkpoint_path)
        for found in trained.predict(self.model.input_fn(Mode.PREDICT), keys=predict_keys):
            if yield_single_examples:
                for row in zip(*found.values(), strict=True):
                    yield dict(zip(found, row, strict=True))
            else:
                yield found

    def latest_checkpoint(self) -> str | None:
        """Return the folder of the newest whole snapshot."""
        path = latest_snapshot(self.config.model_dir)
        return None if path is None else str(path)


def _check_counts(**counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be positive, got {value}; leave it out to go on to the end of the data")


def _check_hooks(hooks: Sequence[Hook]) -> None:
    for hook in hooks:
        if not isinstance(hook, Hook):
            raise TypeError(f"hooks must be monolith.Hook objects, got {hook!r}; derive its class from Hook")
