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

    is_local: bool = setting(False, "Train in one process.")
    num_ps: int = setting(0, "Parameter servers; 0 keeps the tables in the worker.")
    num_workers: int = setting(1, "Workers, the chief included.")
    chief_timeout_secs: int = setting(1800, "How long the chief waits for the workers at the end.")
    operation_timeout_in_ms: int = setting(-1, "The longest a request between processes may take; -1 is forever.")
    session_creation_timeout_secs: int = setting(7200, "Seconds that processes wait for each other at the start.")
    enable_fused_layout: bool = setting(False, "Lay out all features of a batch with one native call.")
    enable_model_dump: bool = setting(False, "Write the model's definition beside its snapshots.")
    keep_strings: bool = setting(False, "Remember the texts of ids, so that commands can show them.")
    partial_recovery: bool = setting(False, "Restore only the PS that are new after a failure.")
    max_retry_times: int = setting(6, "Restarts of a worker.")
    retry_wait_in_secs: int = setting(5, "Pause before a restart.")
    bzid: str | None = setting(None, "Business id of the model, for serving.")
    base_name: str | None = setting(None, "Name of the model in serving.")
    ps_replica_num: int | None = setting(None, "Replicas of each shard in serving.")
    enable_parameter_sync: bool = setting(False, "Send changes to the servers while training.")
    export_base: str | None = setting(None, "Folder of versions that the run writes while it trains; makes it live.")
    sync_targets: str | list[str] | None = setting(
        None, "Addresses of servers to send changes to, with commas; makes a run live."
    )
    sync_every_seconds: float | None = setting(
        None, "Seconds between two sends of changes; by default 0.5, or 10 with enable_realtime_training."
    )
    export_every_seconds: float = setting(60.0, "Seconds between two versions; the run also writes one at its start.")
    exports_max_to_keep: int = setting(3, "Versions to keep in export_base.")
    tls_cert: str | None = setting(None, "Certificate (PEM) that the run shows to servers.")
    tls_key: str | None = setting(None, "Private key (PEM) of that certificate.")
    tls_ca: str | None = setting(None, "Authority (PEM) that must have signed the servers' certificates.")
    status_path: str | None = setting(None, "JSON file with the state of training, written about once a second.")
    model_dir: str | Path = setting("", "Folder of the snapshots; a run continues from the newest one.")
    restore_dir: str | None = setting(None, "Another model_dir, or a URL with copies of one, to start from.")
    restore_ckpt: str | None = setting(None, "Snapshot to start from; by default the newest.")
    drop_not_finite: bool = setting(False, "Drop rows that are NaN or infinite in a restore, instead of an error.")
    save_checkpoints_secs: float | None = setting(None, "Seconds between two snapshots; 60 if nothing is set.")
    save_checkpoints_steps: int | None = setting(None, "Steps between two snapshots.")
    delta_every_steps: int | None = setting(None, "Steps between two deltas, which save only what changed.")
    mirror_dir: str | None = setting(None, "URL or folder for a copy of every checkpoint.")
    max_rpc_deadline_millis: int = setting(30_000, "How long a server waits for rows of another.")
    dense_only_save_checkpoints_secs: float | None = setting(
        None, "Seconds between two snapshots of dense weights alone."
    )
    dense_only_save_checkpoints_steps: int | None = setting(None, "Steps between two snapshots of dense weights alone.")
    checkpoints_max_to_keep: int = setting(10, "Snapshots to keep; the run removes older ones.")
    no_first_save: bool = setting(False, "No snapshot before the first step; an early crash loses all training.")
    ignore_save_errors: bool | None = setting(None, "Continue if a save fails; None: only in real-time training.")
    feature_eviction_on_save: bool = setting(False, "Remove expired rows before each snapshot.")
    tide_start_hour: int | None = setting(None, "Hour (UTC) at which the daily window on shared machines starts.")
    tide_start_minute: int | None = setting(None, "Minute at which it starts.")
    tide_end_hour: int | None = setting(None, "Hour at which it ends; an hour before the start is on the next day.")
    tide_end_minute: int | None = setting(None, "Minute at which it ends.")
    tide_save_secs: int | None = setting(None, "Seconds between snapshots outside the window.")
    warmup_file: str = setting("./warmup_file", "Requests that a server answers before it is asked.")
    skip_zero_embedding_when_serving: bool = setting(False, "Serving tables leave out rows that are all zeros.")
    enable_local_profiling: bool = setting(False, "Profile a run of one process from its first step on.")
    profile_some_steps_from: int | None = setting(None, "First step to profile.")
    profile_save_steps_interval: int = setting(5000, "Steps between two profiles.", flag=False)
    profile_with_nvprof_from_to: str | None = setting(None, 'Steps of a CUDA profile, "begin,end".')
    use_native_multi_hash_table: bool | None = setting(None, "Deprecated; one call always serves all tables.")
    clear_nn: bool = setting(False, "Restore rows, but start with new dense weights.")
    continue_training: bool = setting(False, "With clear_nn, keep the step count.")
    reload_alias_map: Mapping[str, str] | None = setting(None, "Old names of dense weights, by new name.", flag=False)
    enable_alias_map_auto_gen: bool | None = setting(None, "Guess the old names of renamed dense weights; None: yes.")
    kafka_topics: str | list[str] | None = setting(None, "Topics to read, with commas between them.")
    kafka_group_id: str | None = setting(None, "Consumer group.")
    kafka_servers: str | None = setting(None, "Brokers, with commas between them.")
    disable_native_metrics: bool = setting(True, "Leave AUC and MSE of each head out of the summaries.")
    save_summary_steps: int = setting(100, "Steps between two summaries for TensorBoard; 0: none.")
    log_step_count_steps: int = setting(100, "Without a terminal: steps between two lines of progress; 0: none.")
    metric_window: int = setting(100_000, "AUC and log loss of training cover this many of the last predictions.")
    evict_every_seconds: int = setting(3600, "Seconds of event time between two removals of expired rows; 0: never.")
    event_time_jump_seconds: int = setting(86_400, "An event that is further ahead than this does not move event time.")
    event_time_jump_events: int = setting(64, "If this many such events of a partition agree in a row, they move it.")
    seed: int | None = setting(0, "Seed of torch's random numbers, set before the model is made; None: not set.")
    compile: bool = setting(False, "Compile the dense part with torch.compile; takes half a minute at the start.")
    autocast: bool = setting(False, "Compute the dense part in bfloat16 where that is safe.")
    deterministic: bool = setting(False, "Use only operations that always give the same bits.")
    enable_controller: bool = setting(False, "Let `monolith control` pause, resume and save this run.")
    metrics_port: int = setting(0, "Port on 127.0.0.1 with the run's counters for Prometheus; 0: none.")

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
