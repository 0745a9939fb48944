"""Estimator: a model and a configuration, trained with one call."""

import copy
import getpass
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from monolith.checkpoint import latest_state
from monolith.data import Source
from monolith.data.rewind import rewound
from monolith.export.warm_up.request_file import read_requests
from monolith.hooks import Hook
from monolith.model import Mode
from monolith.model.serving_inputs import ServingInputReceiverFn, requests_schema
from monolith.observe.metric_prefix import DEFAULT_PREFIX, set_metric_prefix
from monolith.train.config import RunConfig, RunnerConfig
from monolith.train.config.run_settings import (
    input_config,
    job_config,
    process_config,
    restore_config,
    versions_of,
)
from monolith.train.config.task_settings import task_parameter
from monolith.train.config.training_config import DATA_ROLES
from monolith.train.config.unread import check_unread
from monolith.train.job.evaluate_job import evaluate_job
from monolith.train.job.local_state import run_with_local_servers
from monolith.train.job.run_job import run_job
from monolith.train.job_config import JobConfig
from monolith.train.loop import RunResult, Sync
from monolith.train.made_model import ModelLike, chosen_model, make_model, make_source
from monolith.train.ranks.run_ranks import init_sync_train_and_update_conf, run_ranks
from monolith.train.roles.role import with_role
from monolith.train.run import run, training_source
from monolith.train.saving.save_listener import SaveListener
from monolith.train.trained_model import TrainedModel, open_trained, snapshot_to_look_at


class Estimator:
    """Trains a model; a run continues exactly where the last one in `model_dir` was saved.

    It trains in this process, or in a job of several processes of which this is one: `num_ps`, `num_workers`,
    `server_type` and `index` name its role.

    `config` has the settings from code and command line. The task's parameters apply where both leave a setting open.
    """

    def __init__(
        self,
        model: ModelLike | None,
        conf: RunConfig | RunnerConfig,
        warm_start_from: str | None = None,
        *,
        params: Any = None,
    ) -> None:
        """Take a model, its parameters, or a class that is called with `params`; the last two make it after seeding.

        None takes the model that the configuration's `task` names: "module:Class", or a registered name.
        A model without its own snapshot starts from the folder `warm_start_from`; `restore_dir` does the same.
        """
        if not isinstance(conf, RunConfig | RunnerConfig):
            raise TypeError(
                f"an Estimator takes a RunConfig after the model, got {conf!r}; to name a folder, write "
                "Estimator(Model, monolith.RunConfig(model_dir=...))"
            )
        config = conf.to_runner_config() if isinstance(conf, RunConfig) else copy.copy(conf)
        if warm_start_from is not None:
            config.restore_dir = warm_start_from
        check_unread(vars(config), config.changed())
        model = chosen_model(model, config.task)
        self.model = make_model(model, params, seed=config.seed, override=config.params_override)
        self._is_kept = bool(str(config.model_dir))
        if not self._is_kept:
            config.model_dir = default_model_dir(type(self.model).__name__)
        self.config = with_role(config)
        # The specification has these two exported for processes that are started later.
        os.environ["TF_GRPC_WORKER_CACHE_THREADS"] = str(config.tf_grpc_worker_cache_threads)
        os.environ["MONOLITH_GRPC_WORKER_SERVICE_HANDLER_MULTIPLIER"] = str(
            config.monolith_grpc_worker_service_handler_multiplier
        )

    def train(
        self,
        steps: int | None = None,
        max_steps: int | None = None,
        hooks: Sequence[Hook] | None = None,
        sync: Sync | None = None,
        saving_listeners: Sequence[SaveListener] = (),
        guard_listeners: Sequence[SaveListener] = (),
    ) -> RunResult:
        """Train until the data ends, for `steps` more steps, or to `max_steps` in all, whichever comes first.

        SIGTERM, Ctrl-C and a hook's `request_stop` end it early. A run that ends normally, early, or by an error of a
        hook writes a snapshot. After any other error the next run continues from the last snapshot. With `export_base`
        or `sync_targets` in the configuration, the run also keeps servers up to date. `sync` runs after every step,
        `saving_listeners` before each save and after each successful one, `guard_listeners` after failed ones too. If
        neither `steps` nor `max_steps` is given, the task's own `train.steps` and `train.max_steps` apply.
        """
        if steps is None and max_steps is None:
            steps, max_steps = (task_parameter(self.model, "train", name) for name in ("steps", "max_steps"))
        _check_counts(steps=steps, max_steps=max_steps)
        _check_hooks(hooks)
        if not self._is_kept:
            warnings.warn(
                f"model_dir is not set, so the model is kept in {self.config.model_dir}, a folder for temporary files. "
                "The system may empty it, and a model of the same name continues from it: set model_dir (--model-dir)",
                stacklevel=2,
            )
        self._name_metrics()
        if self.config.enable_sync_training:
            init_sync_train_and_update_conf(self.config)
        job = job_config(self.config)
        job.check()
        return self._how_to_train(job)(
            self.model,
            self.config,
            steps=steps,
            max_steps=max_steps,
            hooks=hooks or (),
            syncs=() if sync is None else [sync],
            listeners=saving_listeners,
            guards=guard_listeners,
        )

    def evaluate(
        self,
        steps: int | None = None,
        hooks: Sequence[Hook] | None = None,
        *,
        checkpoint_path: str | None = None,
        group_by: str | None = None,
    ) -> dict[str, float]:
        """Return loss and metrics of a snapshot, the newest one if none is named, on the source for EVAL.

        In a job of several processes each worker looks at its part of the data, and returns the figures of that part;
        a parameter server returns none. It changes nothing, and another process may train in `model_dir` meanwhile.
        Without a snapshot in `model_dir`, the one in `restore_dir` is used. A classification has "auc", "logloss" and
        "calibration", a regression "mse". With several heads, the head's name comes first. `loss` is the mean of the
        batches' losses.

        Args:
            steps: batches to look at; the task's own `eval.steps`, else all there are, if not given.
            hooks: watch it, as they watch training.
            checkpoint_path: folder of another snapshot.
            group_by: a column of ids; adds the AUC within each of its groups, such as within each user.
        """
        steps = task_parameter(self.model, "eval", "steps") if steps is None else steps
        _check_counts(steps=steps)
        _check_hooks(hooks)
        self._name_metrics()
        job = job_config(self.config)
        job.check()
        if job.server_type in DATA_ROLES or (job.is_sync and job.server_type == "ps"):
            return {}  # evaluating needs neither a data service nor the servers of ranks
        if job.is_job:
            find = partial(
                snapshot_to_look_at, Path(self.config.model_dir), restore_config(self.config), checkpoint_path
            )
            source = self._source(Mode.EVAL)
            return evaluate_job(
                self.model, self.config, find, source, steps=steps, hooks=hooks or (), group_by=group_by
            )
        trained = self._trained(checkpoint_path)  # first: a model that was never trained needs no data to say so
        source = self._source(Mode.EVAL)
        with rewound(source):
            return trained.evaluate(source, steps=steps, group_by=group_by, hooks=hooks or ())

    def predict(
        self,
        predict_keys: Sequence[str] | None = None,
        hooks: Sequence[Hook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[dict[str, Tensor]]:
        """Yield the predictions of the source for PREDICT by head: of one event at a time, or of whole batches."""
        _check_hooks(hooks)
        trained = self._trained(checkpoint_path)
        source = self._source(Mode.PREDICT)
        with rewound(source):
            for found in trained.predict(source, keys=predict_keys, hooks=hooks or ()):
                if yield_single_examples:
                    for row in zip(*found.values(), strict=True):
                        yield dict(zip(found, row, strict=True))
                else:
                    yield found

    def export_saved_model(
        self,
        batch_size: int = 64,
        name: str | None = None,
        dense_only: bool = False,
        enable_fused_layout: bool = False,
        *,
        export_base: str | os.PathLike[str] | None = None,
        checkpoint_path: str | None = None,
        version: int | None = None,
        serving_input_receiver_fn: ServingInputReceiverFn | None = None,
    ) -> Path:
        """Write a snapshot, by default the newest one, as a version to serve; return the folder of its `model.json`.

        The version goes into `export_base`, else the one of the configuration, else `<model_dir>/exported_models`.
        `monolith serve` answers from there. Its number is by default the next one. With `export_mode="distributed"` in
        the configuration, the rows of each shard have a folder of their own. Only then can it be `dense_only`: it
        shares the rows of the newest version.

        Requests have the columns that `serving_input_receiver_fn` names, else those of the model's own function of this
        name, else those of the training source. The source is not opened if a function names them.

        `batch_size` and `enable_fused_layout` have no effect: a version takes any number of events, and answers the
        same for both layouts. `name` is the name of the model in requests.
        """
        versions = versions_of(self.config, self.model)
        num_shards = versions.shards_of(self.config.num_ps)
        if dense_only and num_shards is None:
            raise ValueError(
                "Only DISTRIBUTED mode is allowed when dense_only=True; "
                'set export_mode="distributed" in the configuration'
            )
        base = versions.export_base if export_base is None else Path(export_base)
        schema = requests_schema(
            self.model.serving_input_receiver_fn,
            lambda: training_source(self.model, input_config(self.config)).schema,
            serving_input_receiver_fn,
        )
        return self._trained(checkpoint_path).export(
            base,
            schema,
            name=name or versions.name,
            num_shards=num_shards,
            dense_only=dense_only,
            version=version,
            warm_up=read_requests(versions.warm_up_file),
        )

    def get_variable_names(self) -> list[str]:
        """Return the names of the dense weights in the newest snapshot, and "global_step"."""
        return sorted(self._variables())

    def get_variable_value(self, name: str) -> Tensor:
        """Return a dense weight of the newest snapshot, or "global_step".

        That is the number of steps, unless the model has a variable `global_step` of its own.
        """
        variables = self._variables()
        if name not in variables:
            raise KeyError(f"there is no variable {name!r}; the snapshot has {', '.join(sorted(variables))}")
        return variables[name]

    def latest_checkpoint(self) -> str | None:
        """Return the folder of the newest whole snapshot or delta."""
        path = latest_state(self.config.model_dir)
        return None if path is None else str(path)

    def close(self) -> None:
        """Give back what the estimator holds; one of a single process holds nothing between calls."""

    def _trained(self, checkpoint_path: str | None = None) -> TrainedModel:
        process_config(self.config).apply()
        return open_trained(self.model, Path(self.config.model_dir), restore_config(self.config), checkpoint_path)

    def _variables(self) -> dict[str, Tensor]:
        return self._trained().variables()

    def _source(self, mode: Mode) -> Source:
        return make_source(self.model, mode, input_config(self.config))

    def _how_to_train(self, job: JobConfig) -> Callable[..., RunResult]:
        if job.is_sync:
            return run_ranks
        if job.is_job:
            return run_job
        return run_with_local_servers if job.num_ps else run

    def _name_metrics(self) -> None:
        name = self.config.deep_insight_name
        set_metric_prefix(f"{DEFAULT_PREFIX}.{name}" if name else DEFAULT_PREFIX)


def _check_counts(**counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be positive, got {value}; leave it out to go on to the end of the data")


def _check_hooks(hooks: Sequence[Hook] | None) -> None:
    for hook in hooks or ():
        if not isinstance(hook, Hook):
            raise TypeError(f"hooks must be monolith.Hook objects, got {hook!r}; derive its class from Hook")


def default_model_dir(model_name: str) -> Path:
    """Return where a model without a `model_dir` is kept: in the folder for temporary files, under the user's name."""
    return Path(tempfile.gettempdir()) / getpass.getuser() / model_name
