"""Estimator: a model and a configuration, trained with one call."""

import getpass
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from monolith.checkpoint import ModelDirOwner, latest_state
from monolith.hooks import Hook
from monolith.model import Mode, MonolithModel
from monolith.model.hyper_params import InstantiableParams, Params
from monolith.train.config import RunConfig, RunnerConfig, require_one_process
from monolith.train.hooks.standard import standard_hooks
from monolith.train.live_view import LiveView
from monolith.train.loop import RunResult, Sync, Trainer
from monolith.train.model_dump import MODEL_DUMP_NAME, DumpUtils
from monolith.train.saving.restore_options import RestoreOptions
from monolith.train.saving.save_listener import SaveListener
from monolith.train.saving.starting_point import open_state
from monolith.train.state import TrainState
from monolith.train.trained_model import open_trained


class Estimator:
    """Trains a model in this process; a run goes on exactly where the last one in `model_dir` was saved.

    `config` is what runs: what code and command line said, put together.
    """

    def __init__(
        self,
        model: type[MonolithModel] | MonolithModel | InstantiableParams,
        config: RunConfig | RunnerConfig,
        warm_start_from: str | None = None,
        *,
        params: Any = None,
    ) -> None:
        """Take a model, or what makes one after seeding: parameters, or a class that is called with `params`.

        A folder `warm_start_from` is where a model without a snapshot of its own begins, as `restore_dir` says too.
        """
        self.config = config.to_runner_config() if isinstance(config, RunConfig) else config
        if warm_start_from is not None:
            self.config.restore_dir = warm_start_from
        require_one_process(self.config)
        if self.config.seed is not None and not isinstance(model, MonolithModel):
            torch.manual_seed(self.config.seed)
        self.model: MonolithModel = _made(model, params)
        self._override_params()
        if not str(self.config.model_dir):
            self.config.model_dir = default_model_dir(type(self.model).__name__)
        # The specification has these two exported for whatever reads them downstream.
        os.environ["TF_GRPC_WORKER_CACHE_THREADS"] = str(self.config.tf_grpc_worker_cache_threads)
        os.environ["MONOLITH_GRPC_WORKER_SERVICE_HANDLER_MULTIPLIER"] = str(
            self.config.monolith_grpc_worker_service_handler_multiplier
        )

    def train(
        self,
        steps: int | None = None,
        max_steps: int | None = None,
        hooks: Sequence[Hook] = (),
        sync: Sync | None = None,
        saving_listeners: Sequence[SaveListener] = (),
        guard_listeners: Sequence[SaveListener] = (),
    ) -> RunResult:
        """Train until the data ends, for `steps` more steps, or to `max_steps` in all, whichever comes first.

        SIGTERM, Ctrl-C and a hook's `request_stop` end it early and in good order. Every end but an error writes a
        snapshot, and so does the error of a hook; after any other error training goes on from the last one. `sync` is
        called after every step. Settings add hooks of their own: see `standard_hooks`. Of saves, `saving_listeners` are
        told before and after success, `guard_listeners` however they end.
        """
        config = self.config
        _check_counts(steps=steps, max_steps=max_steps)
        _check_hooks(hooks)
        watching = [
            *standard_hooks(config, type(self.model).__name__),
            *hooks,
            LiveView(every_steps=config.log_step_count_steps),
        ]
        for hook in watching:
            hook.begin()
        with ModelDirOwner(config.model_dir):
            source = self.model.input_fn(Mode.TRAIN)
            state = TrainState(
                self.model,
                source,
                evict_every_seconds=config.evict_every_seconds,
                event_time_jump_seconds=config.event_time_jump_seconds,
                event_time_jump_events=config.event_time_jump_events,
                fused_layout=config.enable_fused_layout,
            )
            open_state(state, config)
            self._dump_model(state)
            limits = [] if max_steps is None else [max_steps]
            if steps is not None:
                limits.append(state.global_step + steps)
            trainer = Trainer(
                state,
                config,
                hooks=watching,
                sync=sync,
                saving_listeners=saving_listeners,
                guard_listeners=guard_listeners,
            )
            return trainer.run(min(limits, default=None))

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
        trained = open_trained(self.model, self.config.model_dir, checkpoint_path, RestoreOptions.of(self.config))
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
        trained = open_trained(self.model, self.config.model_dir, checkpoint_path, RestoreOptions.of(self.config))
        for found in trained.predict(self.model.input_fn(Mode.PREDICT), keys=predict_keys):
            if yield_single_examples:
                for row in zip(*found.values(), strict=True):
                    yield dict(zip(found, row, strict=True))
            else:
                yield found

    def close(self) -> None:
        """Give back what the estimator holds; one of a single process holds nothing between calls."""

    def _dump_model(self, state: TrainState) -> None:
        dump = DumpUtils(self.config.enable_model_dump)
        dump.record_params(self.model)
        dump.add_config(self.config)
        dump.add_plan(state.plan)
        dump.dump(Path(self.config.model_dir) / MODEL_DUMP_NAME)

    def _override_params(self) -> None:
        text = self.config.params_override
        if not text:
            return
        try:
            values = json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("it is not an object")
        except ValueError as error:
            raise ValueError(f'params_override must be a JSON object such as {{"units": 8}}, got {text!r}') from error
        held = getattr(self.model, "p", None) or self.model.params
        if isinstance(held, Params):
            held.set(**values)
        elif isinstance(held, dict):
            held.update(values)
        else:
            raise ValueError(f"params_override: {type(self.model).__name__} has no parameters that could be set")

    def latest_checkpoint(self) -> str | None:
        """Return the folder of the newest whole snapshot or delta."""
        path = latest_state(self.config.model_dir)
        return None if path is None else str(path)


def _check_counts(**counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be positive, got {value}; leave it out to go on to the end of the data")


def _check_hooks(hooks: Sequence[Hook]) -> None:
    for hook in hooks:
        if not isinstance(hook, Hook):
            raise TypeError(f"hooks must be monolith.Hook objects, got {hook!r}; derive its class from Hook")


def default_model_dir(model_name: str) -> Path:
    """Return where a model without a `model_dir` is kept: in the folder for temporary files, under the user's name."""
    return Path(tempfile.gettempdir()) / getpass.getuser() / model_name


def _made(model: type[MonolithModel] | MonolithModel | InstantiableParams, params: Any) -> MonolithModel:
    made = model.instantiate() if isinstance(model, InstantiableParams) else model
    if isinstance(made, type):
        made = made(params)
    if not isinstance(made, MonolithModel):
        raise TypeError(f"an Estimator takes a MonolithModel, its class or its parameters, got {model!r}")
    return made
