"""RunConfig: what a user says about a run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from monolith.train.config.runner_config import RunnerConfig, ServiceDiscoveryType, runner_defaults
from monolith.train.config.setting import setting

# The value in a RunConfig goes into the RunnerConfig whatever it is; others only if the user changed them.
_ALWAYS = (
    "restore_dir",
    "restore_ckpt",
    "model_dir",
    "enable_fused_layout",
    "enable_model_dump",
    "warmup_file",
    "enable_alias_map_auto_gen",
    "kafka_topics",
    "kafka_group_id",
    "kafka_servers",
    "save_summary_steps",
    "log_step_count_steps",
    "disable_native_metrics",
)
_RENAMED = {"enable_parameter_sync": "enable_realtime_training"}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The settings that a user chooses in code; the command line may set those left at their default.

    >>> RunConfig(model_dir="model", save_checkpoints_steps=10).to_runner_config().snapshot_seconds is None
    True
    """

    is_local: bool = setting(False, "Train in one process, with its parameter servers.")
    num_ps: int = setting(0, "Parameter servers; 0 keeps the tables in the worker.")
    num_workers: int = setting(1, "Workers, the chief included.")
    chief_timeout_secs: int = setting(1800, "How long the chief waits for the workers at the end.")
    operation_timeout_in_ms: int = setting(-1, "The longest a request between processes may take; -1 is forever.")
    session_creation_timeout_secs: int = setting(7200, "How long processes wait for each other at the start.")
    enable_fused_layout: bool = setting(False, "Lay out all features of a batch with one native call.")
    enable_model_dump: bool = setting(False, "Write down the model's definition beside its snapshots.")
    keep_strings: bool = setting(False, "Remember the texts that became ids, for commands that show rows.")
    partial_recovery: bool = setting(False, "Restore only the PS that are new after a failure.")
    max_retry_times: int = setting(6, "Restarts of a worker.")
    retry_wait_in_secs: int = setting(5, "Pause before a restart.")
    bzid: str | None = setting(None, "Business id of the model, for serving.")
    base_name: str | None = setting(None, "Name of the model in serving.")
    ps_replica_num: int | None = setting(None, "Replicas of each shard in serving.")
    enable_parameter_sync: bool = setting(False, "Send what was learned to serving all the time.")
    export_base: str | None = setting(None, "Folder of versions for servers, written while training; makes a run live.")
    sync_targets: str | list[str] | None = setting(None, "Where servers take deltas, by comma; makes a run live.")
    sync_every_seconds: float | None = setting(
        None, "What changed goes to the servers this often; 0.5, or 10 with enable_realtime_training."
    )
    export_every_seconds: float = setting(60.0, "A version for servers this often, besides the one at the start.")
    exports_max_to_keep: int = setting(3, "Versions kept in the export base.")
    tls_cert: str | None = setting(None, "Certificate that servers are shown (PEM).")
    tls_key: str | None = setting(None, "Its private key (PEM).")
    tls_ca: str | None = setting(None, "Authority that the servers' certificates must have (PEM).")
    status_path: str | None = setting(None, "JSON file that says how training goes, written about once a second.")
    model_dir: str | Path = setting("", "Folder of the snapshots; a run continues from the newest one in it.")
    restore_dir: str | None = setting(None, "Another model_dir, or a URL with copies of one, to start from.")
    restore_ckpt: str | None = setting(None, "Which of its snapshots; the newest if not given.")
    drop_not_finite: bool = setting(False, "Restore without the rows that are NaN or infinite, instead of refusing.")
    save_checkpoints_secs: float | None = setting(None, "A snapshot this often, in seconds; 60 if neither is given.")
    save_checkpoints_steps: int | None = setting(None, "A snapshot at every n-th step.")
    delta_every_steps: int | None = setting(None, "What changed since the last save, at every n-th step.")
    mirror_dir: str | None = setting(None, "A URL or folder with a copy of every checkpoint.")
    max_rpc_deadline_millis: int = setting(30_000, "How long a server waits for rows of another.")
    dense_only_save_checkpoints_secs: float | None = setting(None, "A snapshot of dense weights alone, in seconds.")
    dense_only_save_checkpoints_steps: int | None = setting(None, "A snapshot of dense weights alone, in steps.")
    checkpoints_max_to_keep: int = setting(10, "Snapshots kept; older ones are removed.")
    no_first_save: bool = setting(False, "No snapshot before the first step; an early crash loses all training.")
    ignore_save_errors: bool | None = setting(None, "Train on when a save fails; None is only in real-time training.")
    feature_eviction_on_save: bool = setting(False, "Remove expired rows when a snapshot is written.")
    tide_start_hour: int | None = setting(None, "Start, in UTC, of the daily window for shared machines.")
    tide_start_minute: int | None = setting(None, "Minute of the start.")
    tide_end_hour: int | None = setting(None, "End of the window; before the start, it means the next day.")
    tide_end_minute: int | None = setting(None, "Minute of the end.")
    tide_save_secs: int | None = setting(None, "Seconds between snapshots outside the window.")
    warmup_file: str = setting("./warmup_file", "Requests that a server answers before it is asked.")
    skip_zero_embedding_when_serving: bool = setting(False, "Serving tables leave out rows that are all zeros.")
    enable_local_profiling: bool = setting(False, "Profile runs of one process, from the first step on.")
    profile_some_steps_from: int | None = setting(None, "First step that is profiled.")
    profile_save_steps_interval: int = setting(5000, "Steps from one profile to the next.", flag=False)
    profile_with_nvprof_from_to: str | None = setting(None, 'Steps of a CUDA profile, "begin,end".')
    use_native_multi_hash_table: bool | None = setting(None, "Deprecated; one call always serves all tables.")
    clear_nn: bool = setting(False, "Restore rows but begin with new dense weights.")
    continue_training: bool = setting(False, "With clear_nn, go on counting steps.")
    reload_alias_map: Mapping[str, str] | None = setting(None, "New name -> old name of dense weights.", flag=False)
    enable_alias_map_auto_gen: bool | None = setting(None, "Guess the names of renamed dense weights; None is yes.")
    kafka_topics: str | list[str] | None = setting(None, "Topics to read, by comma.")
    kafka_group_id: str | None = setting(None, "Consumer group.")
    kafka_servers: str | None = setting(None, "Brokers, by comma.")
    disable_native_metrics: bool = setting(True, "No AUC and MSE of each head among the summaries.")
    save_summary_steps: int = setting(100, "Summaries for TensorBoard at every n-th step; 0 writes none.")
    log_step_count_steps: int = setting(100, "Without a terminal, a line at every n-th step; 0 prints none.")
    metric_window: int = setting(100_000, "Predictions over which AUC and log loss of training are computed.")
    evict_every_seconds: int = setting(3600, "Remove expired rows this often, in seconds of event time; 0 never.")
    event_time_jump_seconds: int = setting(86_400, "A time further ahead than this does not move event time.")
    event_time_jump_events: int = setting(64, "This many consecutive events of a partition that agree do.")
    seed: int | None = setting(0, "What torch's generator starts from before the model is made; None leaves it alone.")
    compile: bool = setting(False, "Compile the dense part with torch.compile; takes half a minute at the start.")
    autocast: bool = setting(False, "Compute the dense part in bfloat16 where that is safe.")
    deterministic: bool = setting(False, "Use only operations that give the same bits every time.")
    enable_controller: bool = setting(False, "Let `monolith control` pause, resume and save this run.")
    metrics_port: int = setting(0, "Port of 127.0.0.1 where Prometheus finds the run's counters; 0 opens none.")

    def to_runner_config(self) -> RunnerConfig:
        """Return what runs: command-line flags apply unless code changed the value."""
        config = RunnerConfig(**{name: getattr(self, name) for name in _ALWAYS})
        known = runner_defaults()
        for name in self.changed():
            target = _RENAMED.get(name, name)
            if target in known:
                setattr(config, target, getattr(self, name))
        asked = config.changed()
        if config.discovery_type is ServiceDiscoveryType.CONSUL:
            config.discovery_type = ServiceDiscoveryType.ZK
        if not config.enable_gpu_training:
            config.embedding_prefetch_capacity = max(config.embedding_prefetch_capacity, 1)
            config.enable_embedding_postpush = True
        config.derived = [name for name in config.changed() if name not in asked]
        super(RunnerConfig, config).__post_init__()  # what was copied is checked too
        return config

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        self.to_runner_config()

    def changed(self) -> list[str]:
        """Return the names of the settings that differ from their default."""
        return [one.name for one in fields(self) if getattr(self, one.name) != one.default]

    def to_json(self) -> str:
        """Return the settings as a JSON object."""
        return json.dumps({**asdict(self), "model_dir": str(self.model_dir)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote; a name that is no setting is a ValueError."""
        values: Any = json.loads(text)
        unknown = sorted(set(values) - {one.name for one in fields(cls)})
        if unknown:
            raise ValueError(f"a RunConfig has no settings {', '.join(unknown)}")
        return cls(**values)

    @property
    def snapshot_seconds(self) -> float | None:
        """Seconds between snapshots that are in force."""
        return self.to_runner_config().snapshot_seconds
