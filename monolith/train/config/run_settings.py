"""RunSettings: what a run takes, one part per owner, made from the flat names that users know."""

import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from monolith.checkpoint.keep.tide_window import TideConfig
from monolith.cluster.discovery.parse import AGENTS, CONTAINERS
from monolith.cluster.discovery.zookeeper.servers import default_zk_servers
from monolith.cluster.platform.zk_environment import zk_servers_of_environment
from monolith.data.input_config import InputConfig
from monolith.embedding.admission import AdmissionConfig
from monolith.model.hyper_params.spelling import to_snake_case
from monolith.train.config.readers import READERS
from monolith.train.config.runner_config import RunnerConfig
from monolith.train.config.task_settings import task_parameter, task_settings
from monolith.train.config.training_config import is_chief
from monolith.train.hooks.standard import WatchConfig
from monolith.train.job_config import JobConfig
from monolith.train.live.live_config import (
    DEFAULT_SYNC_SECONDS,
    EXPORT_FOLDER,
    REALTIME_SYNC_SECONDS,
    STANDALONE,
    LiveConfig,
    split_targets,
)
from monolith.train.loop import LoopConfig
from monolith.train.process_config import ProcessConfig
from monolith.train.saving.saving_config import SavingConfig
from monolith.train.state import RestoreConfig, StateConfig
from monolith.wire import TlsConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """What a run takes: the settings of each of its parts."""

    process: ProcessConfig
    input: InputConfig
    state: StateConfig
    restore: RestoreConfig
    loop: LoopConfig
    saving: SavingConfig
    watch: WatchConfig
    job: JobConfig
    live: LiveConfig | None
    """None unless what is learned goes to servers."""
    exports: LiveConfig | None
    """Where a version goes with every save; None unless the task's `serving.export_when_saving` asks for it."""

    @classmethod
    def of(cls, config: RunnerConfig, model: Any) -> "RunSettings":
        """Return the parts that a configuration describes; the model's own parameters fill in what it leaves open."""
        config = task_settings(config, model)
        tide = TideConfig(**_fields(config, TideConfig))
        state = _fields(config, StateConfig)
        profiles_all = config.enable_local_profiling and config.profile_some_steps_from is None
        watch = {
            **_fields(config, WatchConfig),
            "folder": Path(config.model_dir),
            "name": config.deep_insight_name or config.model_name,
            "is_chief": is_chief(config),
            "native_metrics": not config.disable_native_metrics,
            "profile_from": 0 if profiles_all else config.profile_some_steps_from,
            "throughput": task_parameter(model, "metrics", "enable_throughput_hook") is not False,
        }
        saving = {
            **_fields(config, SavingConfig),
            "folder": Path(config.model_dir),
            "ignore_errors": config.ignores_save_errors,
        }
        watched, job = WatchConfig(**watch, tide=tide), job_config(config)
        _check_alerts(watched, job)
        return cls(
            process=process_config(config),
            input=input_config(config),
            state=StateConfig(**state, admission=AdmissionConfig(**_fields(config, AdmissionConfig))),
            restore=restore_config(config),
            loop=LoopConfig(**_fields(config, LoopConfig)),
            saving=SavingConfig(**saving, tide=tide),
            watch=watched,
            job=job,
            live=_live(config, model),
            exports=versions_of(config, model) if task_parameter(model, "serving", "export_when_saving") else None,
        )


def _check_alerts(watch: WatchConfig, job: JobConfig) -> None:
    """Refuse alerts that nothing could cause."""
    if watch.alerts is None or watch.alerts.training or job.is_job or job.keeps_rows_on_ps:
        return
    raise ValueError(
        f"monolith_alert_proto={watch.chief_alert or watch.alert!r} names nothing to alert about, and there are no "
        "parameter servers that could be unwell; add training_alert {} or leave it out"
    )


def process_config(config: RunnerConfig) -> ProcessConfig:
    """Return the threads of the process."""
    return ProcessConfig.of(config.intra_op_parallelism_threads, config.inter_op_parallelism_threads)


def input_config(config: RunnerConfig) -> InputConfig:
    """Return the settings of the input; evaluating and exporting need only these."""
    found = InputConfig(**_fields(config, InputConfig), tls=tls_config(config))
    if job_config(config).is_job:
        return found
    if found.use_dataservice and not found.dispatcher:
        raise ValueError(
            "use_dataservice reads batches from a data service; set data_service_dispatcher to its address "
            "(`monolith data-service dispatcher` prints it)"
        )
    if found.num_extra_workers:
        raise ValueError(
            f"num_extra_dsworker_on_gpu_worker={found.num_extra_workers} is for jobs with parameter servers; start "
            "`monolith data-service worker` beside this process instead"
        )
    return found


def job_config(config: RunnerConfig) -> JobConfig:
    """Return which process of a job this is."""
    # A RunConfig lets rows be fetched ahead, as the original's does. Here rows are older than they need to be only
    # where somebody asks for it.
    return JobConfig(**_fields(config, JobConfig, without=config.derived))


def restore_config(config: RunnerConfig) -> RestoreConfig:
    """Return where a run starts from, and what it takes from there."""
    return RestoreConfig(
        **{
            **_fields(config, RestoreConfig),
            "guess_names": config.enable_alias_map_auto_gen is not False,
            "continue_training": config.continue_training and config.clear_nn,
            "is_chief": config.is_local or is_chief(config),
        }
    )


def export_base_of(config: RunnerConfig, model: Any) -> Path:
    """Return the folder of a model's versions: `export_base`, else the task's own folder inside `model_dir`."""
    if config.export_base:
        return Path(config.export_base)
    return Path(config.model_dir) / (task_parameter(model, "serving", "export_dir_base") or EXPORT_FOLDER)


def versions_of(config: RunnerConfig, model: Any) -> LiveConfig:
    """Return where the versions of a model go and how they are laid out, with nobody to send changes to."""
    mode = config.export_mode or task_parameter(model, "serving", "export_mode") or STANDALONE
    return LiveConfig(
        export_base=export_base_of(config, model),
        name=serving_name(config, model),
        mode=mode,
        num_shards=config.export_num_shards,
        keep_exports=config.exports_max_to_keep,
        model_dir=Path(config.model_dir),
        skip_zero_embedding=config.skip_zero_embedding_when_serving,
        warm_up_file=config.warmup_file,
    )


def serving_name(config: RunnerConfig, model: Any) -> str:
    """Return what requests call a model: `base_name`, else the name of its class in snake case."""
    return config.base_name or to_snake_case(type(model).__name__)


def _fields(config: RunnerConfig, owner: type, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the values of the settings that one owner reads, by the names of its fields."""
    found = {}
    for name, reader in READERS.items():
        kind, _, field = reader.partition(".")
        if kind == owner.__name__ and field and name not in without:
            found[field] = getattr(config, name)
    return found


def _live(config: RunnerConfig, model: Any) -> LiveConfig | None:
    found = _registered_servers(config)
    if not (config.enable_realtime_training or config.export_base or config.sync_targets):
        return None
    targets = config.sync_targets or ()
    named = split_targets(targets) if isinstance(targets, str) else targets
    default_seconds = REALTIME_SYNC_SECONDS if config.enable_realtime_training else DEFAULT_SYNC_SECONDS
    return replace(
        versions_of(config, model),
        sync_targets=(*named, *found),
        sync_seconds=default_seconds if config.sync_every_seconds is None else config.sync_every_seconds,
        export_seconds=config.export_every_seconds,
        tls=tls_config(config),
    )


def _registered_servers(config: RunnerConfig) -> list[str]:
    """Return the discovery of the servers that agents registered for the model, if a realtime run names its `bzid`.

    With `unified_serving` they are found by their containers. ZooKeeper is at `zk_server`, else where the environment
    or the site says.
    """
    if not config.enable_realtime_training:
        for name in ("bzid", "unified_serving"):
            if getattr(config, name):
                warnings.warn(f"{name} has no effect without enable_realtime_training", stacklevel=5)
        return []
    _require_servers(config)
    if not config.bzid:
        return []
    zk_servers = config.zk_server or zk_servers_of_environment() or default_zk_servers()
    if not zk_servers:
        raise ValueError(
            f"bzid={config.bzid!r}: servers are found in ZooKeeper, and none is named; set zk_server, such as "
            'zk_server="HOST:2181", several by comma'
        )
    kind = CONTAINERS if config.unified_serving else AGENTS
    return [f"{kind}:{zk_servers}/{config.bzid}/{config.base_name}"]


def _require_servers(config: RunnerConfig) -> None:
    if not config.bzid and (config.unified_serving or not config.sync_targets):
        raise ValueError(
            "Business id cannot be none while realtime training (enable_realtime_training, enable_parameter_sync in a "
            "RunConfig), and sync_targets is empty; set bzid to find servers that agents registered in ZooKeeper, or "
            'sync_targets to where servers take deltas, such as ["127.0.0.1:7001"] (`monolith serve --sync-address`)'
        )
    if not config.base_name:
        raise ValueError(
            "Base name cannot be none while realtime training; set base_name to what requests call the model"
        )


def tls_config(config: RunnerConfig) -> TlsConfig | None:
    """Return the certificates of this process, if settings name some; ValueError if they name only some."""
    paths = {"cert_path": config.tls_cert, "key_path": config.tls_key, "ca_path": config.tls_ca}
    given = {name: path for name, path in paths.items() if path}
    if not given:
        return None
    if len(given) < len(paths):
        raise ValueError("TLS needs all three of tls_cert, tls_key and tls_ca")
    return TlsConfig(**given)
