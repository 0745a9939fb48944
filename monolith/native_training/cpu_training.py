"""CpuTraining: a task with its configuration; `local_train` trains one in this process."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from monolith.cluster.discovery import ServiceDiscovery
from monolith.data import Column, Source
from monolith.embedding import TableConfig
from monolith.hooks import Hook
from monolith.model import EstimatorSpec, Mode, MonolithModel, make_plan
from monolith.model.hyper_params import InstantiableParams
from monolith.model.serving_inputs import ServingInputReceiver, ServingInputReceiverFn, requests_schema
from monolith.native_training.finder import names_from_table
from monolith.parallel.ranks import RankPlace
from monolith.train.config import CpuTrainingConfig as CpuTrainingConfig
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import input_config, job_config, restore_config, versions_of
from monolith.train.config.task_settings import task_parameter, task_settings
from monolith.train.config.training_config import SERVER_TYPES
from monolith.train.estimator import Estimator
from monolith.train.job.evaluate_job import evaluate_job
from monolith.train.job.place import PS
from monolith.train.job.run_job import run_job
from monolith.train.live.parameter_sync_hook import ParameterSyncHook, SyncBackend
from monolith.train.loop import RunResult
from monolith.train.made_model import chosen_model, make_model, make_source
from monolith.train.ranks.run_ranks import init_sync_train_and_update_conf as init_sync_train_and_update_conf
from monolith.train.ranks.run_ranks import run_ranks
from monolith.train.ranks.sync_hooks import SyncTrainingInfoHook
from monolith.train.roles.cluster import ListedCluster
from monolith.train.run import training_source
from monolith.train.trained_model import snapshot_to_look_at

if TYPE_CHECKING:
    from monolith.train.config import DistributedCpuTrainingConfig

__getattr__ = names_from_table(__name__)

ModelFn = Callable[[dict[str, Any], Mode], EstimatorSpec | tuple[Any, Any, Any]]


def get_req_time(features: Mapping[str, Column]) -> int | None:
    """Return when a batch was asked for: its first `req_time`, or None without such a column."""
    times = features.get("req_time")
    return int(times[0]) if isinstance(times, Tensor) and len(times) else None


class CpuTraining:
    """A task with its configuration: what it reads, what it computes, and the tables it needs.

    >>> from monolith.model.zoo.movie_ranking import MovieRanking
    >>> CpuTraining(CpuTrainingConfig(), MovieRanking()).config.model_name
    'di_name_MovieRanking'
    """

    def __init__(self, config: CpuTrainingConfig, task: MonolithModel, sync_backend: Any = None) -> None:
        """Fill in what the configuration leaves open; only a worker builds a model, so others are refused."""
        if config.server_type != "worker":
            raise ValueError(f"server_type in CpuTraining must be `worker`, got {config.server_type!r}")
        self.config = task_settings(config, task)
        self.task = task
        self.sync_backend = sync_backend

    @property
    def feature_configs(self) -> dict[str, TableConfig]:
        """The tables that the task looks up, by name: found by a dry run on its training source's schema."""
        return make_plan(self.task, self._source(Mode.TRAIN).schema).tables()

    def create_input_fn(self, mode: Mode) -> Callable[[], Source]:
        """Return a function that returns the task's source of a mode."""
        return lambda: self._source(mode)

    def create_model_fn(self) -> ModelFn:
        """Return the task's model function."""
        return self.task.model_fn

    def create_serving_input_receiver_fn(self) -> Callable[[], ServingInputReceiver]:
        """Return a function that says what requests to an export have: as the task says, else the source's columns."""
        own = self.task.serving_input_receiver_fn
        return lambda: ServingInputReceiver(requests_schema(own, lambda: self._source(Mode.TRAIN).schema))

    def _source(self, mode: Mode) -> Source:
        settings = input_config(_runner_config(self.config))
        return training_source(self.task, settings) if mode is Mode.TRAIN else make_source(self.task, mode, settings)


class SavedModelExporter:
    """Writes versions of a task from its snapshots; made by `create_exporter`."""

    def __init__(self, estimator: Estimator, *, dense_only: bool, global_step_as_timestamp: bool) -> None:
        """Take the task as the estimator has it."""
        self._estimator = estimator
        self._dense_only = dense_only
        self._by_step = global_step_as_timestamp

    def export_saved_model(
        self,
        serving_input_receiver_fn: ServingInputReceiverFn | None = None,
        checkpoint_path: str | None = None,
        global_step: int | None = None,
    ) -> Path:
        """Write a snapshot, by default the newest one, as a version; return the folder of its `model.json`.

        Requests have the columns that `serving_input_receiver_fn` names, else those of the task. The number of the
        version is the next one, or the step if the exporter was made so.
        """
        version = None
        if self._by_step:
            step = self._estimator.get_variable_value("global_step") if global_step is None else global_step
            version = int(step)
        return self._estimator.export_saved_model(
            dense_only=self._dense_only,
            checkpoint_path=checkpoint_path,
            version=version,
            serving_input_receiver_fn=serving_input_receiver_fn,
        )


def create_exporter(
    task: CpuTraining,
    model_dir: str | Path,
    warmup_file: str | Path | None,
    export_dir_base: str | Path,
    dense_only: bool,
    include_graphs: Sequence[str] | None = None,
    global_step_as_timestamp: bool = False,
) -> SavedModelExporter:
    """Return what writes versions of a task into `export_dir_base`, a folder below `model_dir` unless absolute.

    `warmup_file` has a request per line; None stands for the one of the configuration. The task's `serving.export_mode`
    is "standalone" or "distributed", unless the configuration sets `export_mode`. One process writes all parts of a
    version, so `include_graphs` must be None. With `global_step_as_timestamp`, the number of a version is the step of
    its snapshot.
    """
    if include_graphs is not None:
        raise ValueError(f"include_graphs={list(include_graphs)}: a version is written whole; leave it out")
    config = _runner_config(task.config)
    if warmup_file is not None:
        config.warmup_file = str(warmup_file)
    config.is_local, config.model_dir, config.export_base = True, model_dir, str(Path(model_dir) / export_dir_base)
    if dense_only and versions_of(config, task.task).shards_of(config.num_ps) is None:
        raise ValueError("Only DISTRIBUTED mode is allowed when dense_only=True")
    return SavedModelExporter(
        Estimator(task.task, config), dense_only=dense_only, global_step_as_timestamp=global_step_as_timestamp
    )


def local_train(
    params: InstantiableParams,
    num_ps: int = 0,
    model_dir: str | Path | None = None,
    steps: int = 100,
    save_checkpoints_steps: int = 50,
    profiling: bool = False,
    enable_embedding_prefetch: bool = True,
    enable_embedding_postpush: bool = True,
    remove_model_dir_if_exists: bool = True,
    only_feature_engineering: bool = False,
) -> Estimator:
    """Train a task in this process for some steps and return the estimator; `model_dir` is emptied first.

    With `num_ps`, the rows are on that many parameter servers inside this process; the results are the same bit for
    bit. Prefetching rows and pushing gradients in the background would change them, and have no effect.
    """
    config = CpuTrainingConfig(
        num_ps=num_ps,
        save_checkpoints_steps=save_checkpoints_steps,
        only_feature_engineering=only_feature_engineering,
    )
    if model_dir is not None and remove_model_dir_if_exists:
        shutil.rmtree(model_dir, ignore_errors=True)
    return local_train_internal(params, config, model_dir, steps, profiling)


def local_train_internal(
    params: InstantiableParams | MonolithModel,
    conf: CpuTrainingConfig,
    model_dir: str | Path | None = None,
    steps: int = 100,
    profiling: bool = False,
    user_hooks: Sequence[Hook] | None = None,
) -> Estimator:
    """Train a task in this process for some steps, as configured, and return the estimator."""
    if conf.only_feature_engineering:
        raise NotImplementedError("only_feature_engineering: write parsed features with a pipeline instead")
    config = _runner_config(conf)
    config.is_local = True
    if model_dir is not None:
        config.model_dir = model_dir
    config.enable_local_profiling |= profiling
    estimator = Estimator(params, config)
    estimator.train(steps=steps, hooks=user_hooks)
    return estimator


def _runner_config(config: CpuTrainingConfig) -> RunnerConfig:
    return RunnerConfig(**{one.name: getattr(config, one.name) for one in fields(config) if one.init})


def distributed_sync_train(
    config: "DistributedCpuTrainingConfig",
    params: InstantiableParams | MonolithModel,
    sync_backend: SyncBackend | None = None,
    user_hooks: Sequence[Hook] | None = None,
) -> RunResult:
    """Train in step with the other ranks, as the rank that `init_sync_train_and_update_conf` has set.

    With `enable_partial_sync_training` the ranks keep their rows on parameter servers; a process whose `server_type` is
    "ps" calls this too, and holds rows until rank 0 ends the job. The servers that `sync_backend` names for all shards
    follow the job, whose `export_base` is set; they can also be listed in `sync_targets`.

    The task's `train.max_steps` ends the job; so does the end of any rank's data. The rows of each rank are counted in
    the log every ten minutes. Two variables of the environment stand for settings: MONOLITH_SAVE_SUMMARY_INTERVAL for
    `save_summary_steps`, MONOLITH_ROOT_LOG_INTERVAL for `log_step_count_steps`.
    """
    runner = _runner_config(config)
    runner.enable_sync_training = True
    rank = RankPlace.of_this_process().rank
    if rank != config.index and config.server_type != PS:
        raise ValueError(f"this is rank {rank}, and index={config.index}; call init_sync_train_and_update_conf first")
    runner.save_summary_steps = _steps_of("MONOLITH_SAVE_SUMMARY_INTERVAL", runner.save_summary_steps)
    runner.log_step_count_steps = _steps_of("MONOLITH_ROOT_LOG_INTERVAL", runner.log_step_count_steps)
    hooks = [SyncTrainingInfoHook(), *_followed(sync_backend, runner), *(user_hooks or ())]
    return Estimator(params, runner).train(hooks=hooks)


def _followed(sync_backend: SyncBackend | None, config: RunnerConfig) -> list[Hook]:
    """Return what lets the servers of all shards follow a job, on the process that finds them for the others."""
    if sync_backend is None or config.server_type == PS or config.index:
        return []
    num_shards = config.num_workers if config.enable_full_sync_training else config.num_ps
    return [ParameterSyncHook(sync_backend, shard) for shard in range(num_shards)]


def _steps_of(variable: str, default: int) -> int:
    text = os.environ.get(variable)
    if text is None:
        return default
    if not text.isdecimal():
        raise ValueError(f"{variable} must be a number of steps, got {text!r}; correct it, or unset it")
    return int(text)


def distributed_train(
    config: "DistributedCpuTrainingConfig",
    discovery: ServiceDiscovery,
    params: InstantiableParams | MonolithModel,
    sync_backend: SyncBackend | None = None,
    user_hooks: Sequence[Hook] | None = None,
) -> RunResult | dict[str, float]:
    """Be the process of a job that the configuration names: a parameter server, the chief, or another worker.

    Returns how training ended, or with mode "eval" the metrics of this worker's part of the data. The task's
    `train.max_steps` ends the job. Some discoveries know the role of this process; theirs counts. With
    `enable_partial_sync_training` the workers are ranks, which take each step together. The servers that
    `sync_backend` names for all shards follow the job.
    """
    values = {one.name: getattr(config, one.name) for one in fields(config) if one.init}
    values |= {name: getattr(discovery, name) for name in ("index", "server_type") if hasattr(discovery, name)}
    cluster = ListedCluster.of(discovery)
    if cluster is not None and cluster.role is not None:
        values["server_type"], values["index"] = cluster.role
    for name, words in (("index", "Index"), ("num_ps", "Num ps"), ("num_workers", "Num workers")):
        if values[name] is None:
            raise ValueError(f"{words} can't be none.")
    if values["server_type"] not in SERVER_TYPES:
        raise ValueError(f"Unknown server type. type: {values['server_type']}")
    if not str(values["model_dir"]):
        raise ValueError("model dir can't be empty.")
    mode, values["mode"] = values["mode"], "train"
    runner = RunnerConfig(**values)
    if runner.enable_full_sync_training:
        raise ValueError(
            "enable_sync_training: ranks that hold all rows themselves need no discovery; call distributed_sync_train, "
            "or set enable_partial_sync_training to keep the rows on parameter servers"
        )
    job_config(runner).check()
    model = make_model(chosen_model(params, runner.task), None, seed=runner.seed, override=runner.params_override)
    if mode == "eval":
        find = partial(snapshot_to_look_at, Path(runner.model_dir), restore_config(runner))
        source = make_source(model, Mode.EVAL, input_config(runner))
        steps = task_parameter(model, "eval", "steps")
        return evaluate_job(model, runner, find, source, discovery=discovery, steps=steps, hooks=user_hooks or ())
    max_steps = task_parameter(model, "train", "max_steps")
    if runner.enable_sync_training:
        init_sync_train_and_update_conf(runner)
    be_process = run_ranks if runner.enable_sync_training else run_job
    hooks = [*_followed(sync_backend, runner), *(user_hooks or ())]
    return be_process(model, runner, discovery=discovery, max_steps=max_steps, hooks=hooks)
