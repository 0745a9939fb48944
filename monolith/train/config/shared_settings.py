"""Settings that a `RunConfig` and the configurations of the original share, declared once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from monolith.observe.machine_health import NO_LIMIT
from monolith.train.config.setting import setting


@dataclass(kw_only=True)
class SharedTrainingSettings:
    """What `CpuTrainingConfig` and `RunConfig` share."""

    num_ps: int = setting(0, "Parameter servers; 0 keeps the tables in the worker.")
    num_workers: int = setting(1, "Workers, the chief included.")
    enable_sync_training: bool = setting(False, "All workers take each step together, as ranks that hold the rows.")
    enable_partial_sync_training: bool = setting(
        False, "With enable_sync_training: the ranks keep their rows on num_ps parameter servers."
    )
    sync_row_gradients: str = setting("mean", "Gradients of rows over the ranks of synchronous training: mean or sum.")
    half_precision_rows: bool = setting(
        False, "Rows and their gradients travel as fp16 between workers and PS; the PS keep float32."
    )
    use_native_multi_hash_table: bool | None = setting(None, "Deprecated; one call always serves all tables.")
    tide_start_hour: int | None = setting(None, "Hour (UTC) at which the daily window on shared machines starts.")
    tide_start_minute: int | None = setting(None, "Minute at which it starts.")
    tide_end_hour: int | None = setting(None, "Hour at which it ends; an hour before the start is on the next day.")
    tide_end_minute: int | None = setting(None, "Minute at which it ends.")
    tide_save_secs: int | None = setting(None, "Seconds between snapshots outside the window.")
    export_base: str | None = setting(None, "Folder of versions that the run writes while it trains; makes it live.")
    sync_targets: str | list[str] | None = setting(
        None,
        "Addresses of servers to send changes to, with commas, or where to find them (files:DIR, zk:HOST:PORT/NAME); "
        "makes a run live.",
    )
    sync_every_seconds: float | None = setting(
        None, "Seconds between two sends of changes; by default 0.5, or 10 with enable_realtime_training."
    )
    export_every_seconds: float = setting(60.0, "Seconds between two versions; the run also writes one at its start.")
    export_mode: str | None = setting(
        None,
        "standalone: a version is one folder; distributed: the rows of each shard have one; None: as the task.",
    )
    export_num_shards: int | None = setting(
        None, "Shards of a distributed version; by default num_ps, or 1. In a job, each parameter server writes one."
    )
    exports_max_to_keep: int = setting(3, "Versions to keep in export_base.")
    tls_cert: str | None = setting(None, "Certificate (PEM) that the run shows to servers.")
    tls_key: str | None = setting(None, "Private key (PEM) of that certificate.")
    tls_ca: str | None = setting(None, "Authority (PEM) that must have signed the servers' certificates.")
    status_path: str | None = setting(None, "JSON file with the state of training, written about once a second.")
    enable_local_profiling: bool = setting(False, "Profile a run of one process from its first step on.")
    profile_some_steps_from: int | None = setting(None, "First step to profile.")
    profile_save_steps_interval: int = setting(5000, "Steps between two profiles.", flag=False)
    profile_with_nvprof_from_to: str | None = setting(None, 'Steps of a CUDA profile, "begin,end".')
    chief_timeout_secs: int = setting(1800, "How long the chief waits for the workers at the end.")
    save_checkpoints_secs: float | None = setting(None, "Seconds between two snapshots; 60 if nothing is set.")
    save_checkpoints_steps: int | None = setting(None, "Steps between two snapshots.")
    delta_every_steps: int | None = setting(None, "Steps between two deltas, which save only what changed.")
    dense_only_save_checkpoints_secs: float | None = setting(
        None, "Seconds between two snapshots of dense weights alone."
    )
    dense_only_save_checkpoints_steps: int | None = setting(None, "Steps between two snapshots of dense weights alone.")
    ignore_save_errors: bool | None = setting(None, "Continue if a save fails; None: only in real-time training.")
    mirror_dir: str | None = setting(
        None,
        "URL (s3://...) or folder for copies of snapshots and deltas; a run with an empty model_dir starts from it.",
    )
    no_first_save: bool = setting(False, "No snapshot before the first step; an early crash loses all training.")
    warmup_file: str = setting(
        "./warmup_file",
        "Requests, one per line, that servers answer before a version takes traffic; else made up.",
    )
    skip_zero_embedding_when_serving: bool = setting(False, "Serving tables leave out rows that are all zeros.")
    max_rpc_deadline_millis: int = setting(30_000, "How long a server waits for rows of another.")
    checkpoints_max_to_keep: int = setting(10, "Snapshots to keep; the run removes older ones.")
    feature_eviction_on_save: bool = setting(False, "Remove expired rows before each snapshot.")
    enable_fused_layout: bool = setting(False, "Lay out all features of a batch with one native call.")
    clear_nn: bool = setting(False, "Restore rows, but start with new dense weights.")
    continue_training: bool = setting(False, "With clear_nn, keep the step count.")
    reload_alias_map: Mapping[str, str] | None = setting(None, "Old names of dense weights, by new name.", flag=False)
    enable_alias_map_auto_gen: bool | None = setting(None, "Guess the old names of renamed dense weights; None: yes.")
    enable_model_dump: bool = setting(False, "Write the model's definition beside its snapshots.")
    keep_strings: bool = setting(False, "Remember the texts of ids, so that commands can show them.")
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
    metrics_port: int = setting(0, "Port on 127.0.0.1 with counters for Prometheus, of a job at its chief; 0: none.")
    monolith_alert_proto: str = setting(
        "",
        'What every worker alerts about, as an AlertProto in text form: "training_alert {} check_interval_sec: 600"; '
        "empty: nothing.",
    )
    monolith_chief_alert_proto: str = setting("", "The same for the chief, which else takes monolith_alert_proto.")


@dataclass(kw_only=True)
class SharedJobSettings:
    """What `DistributedCpuTrainingConfig` and `RunConfig` share."""

    model_dir: str | Path = setting("", "Folder of the snapshots; a run continues from the newest one.")
    num_extra_ps: int = setting(0, "Parameter servers more than num_ps: the slowest of all are left out.")
    num_redundant_ps: int = setting(0, "Parameter servers more than num_ps that wait for one to be lost.")
    operation_timeout_in_ms: int = setting(
        -1, "A process that is silent for longer is lost; -1: 30 seconds for a PS, half an hour for a rank."
    )
    max_staleness: int | None = setting(
        None, "Own last pushes that a worker's rows may lack, with PS; 0: none. None: embedding_prefetch_capacity."
    )
    monolith_default_machine_info_mem_limit: int = setting(
        NO_LIMIT, "Bytes of memory from which on the process of a parameter server is reported as not well."
    )
    session_creation_timeout_secs: int = setting(7200, "Seconds that processes wait for each other at the start.")


@dataclass(kw_only=True)
class SharedRunnerSettings:
    """What `RunnerConfig` and `RunConfig` share."""

    is_local: bool = setting(False, "Train in one process, with its parameter servers.")
    discovery: str | None = setting(
        None,
        "Where processes find each other: files:DIR, static:ps=HOST:PORT,..;worker=HOST:PORT, zk:HOST:PORT/JOB or "
        "consul:JOB; by default files in model_dir.",
    )
    listen: str | None = setting(
        None,
        "Where this process listens for others, HOST or HOST:PORT; 0.0.0.0 and :: are all networks; by default only "
        "this machine.",
    )
    insecure: bool = setting(False, "Let other machines connect without TLS: the network is trusted.")
    bzid: str | None = setting(
        None, "Business id: with enable_realtime_training, changes go to the servers that agents registered under it."
    )
    ps_replica_num: int | None = setting(None, "Replicas of each shard in serving.")
    base_name: str | None = setting(None, "Name of the model in serving.")
    restore_dir: str | None = setting(None, "Another model_dir, or a URL with copies of one, to start from.")
    restore_ckpt: str | None = setting(None, "Snapshot to start from; by default the newest.")
    drop_not_finite: bool = setting(False, "Drop rows that are NaN or infinite in a restore, instead of an error.")
    kafka_topics: str | list[str] | None = setting(None, "Topics to read, with commas between them.")
    kafka_group_id: str | None = setting(None, "Consumer group.")
    kafka_servers: str | None = setting(None, "Brokers, with commas between them.")
    disable_native_metrics: bool = setting(True, "Leave AUC and MSE of each head out of the summaries.")
