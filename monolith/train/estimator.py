"""Estimator: a model and a configuration, trained with one call."""

from collections.abc import Sequence
from typing import Any

import torch

from monolith.checkpoint import ModelDirOwner, latest_snapshot
from monolith.hooks import Hook
from monolith.model import Mode, MonolithModel
from monolith.train.config import RunConfig
from monolith.train.live_view import LiveView
from monolith.train.loop import RunResult, Sync, Trainer
from monolith.train.state import TrainState


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

    def latest_checkpoint(self) -> str | None:
        """Return the folder of the newest whole snapshot."""
        path = latest_snapshot(self.config.model_dir)
        return None if path is None else str(path)
