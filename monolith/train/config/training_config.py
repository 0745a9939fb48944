"""How a model is trained, in one process or many: the settings, with the original's names and defaults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monolith.train.config.setting import setting

DEFAULT_SNAPSHOT_SECONDS = 60.0
SERVER_TYPES = ("worker", "ps")
MODES = ("train", "eval", "infer")


@dataclass(kw_only=True)
class CpuTrainingConfig:
    """What the training loop of one process needs to know.

    >>> CpuTrainingConfig().filter_type
    'sliding_hash_filter'
    """

    server_type: str = setting("worker", "What this process is: worker or ps.")
    index: int = setting(0, "Which of its kind this process is; worker 0 is the chief.")
    num_ps: int = setting(0, "Parameter servers; 0 keeps the tables in the worker.")
    num_workers: int = setting(1, "Workers, the chief included.")
    model_name: str = setting("", "Name in metrics and serving; the model's own if empty.")
    filter_capacity: int = setting(300_000_000, "Ids whose sightings are counted before they get a row.")
    filter_split_num: int = setting(7, "Generations of the sliding filter.")
    filter_type: str = setting("sliding_hash_filter", "sliding_hash_filter, probabilistic_filter or no_filter.")
    filter_equal_probability: bool = setting(True, "The probabilistic filter admits each sighting with equal chance.")
    hashtable_init_capacity: int = setting(0, "Rows that tables make room for at the start; 0 as configured.")
    use_native_multi_hash_table: bool | None = setting(None, "Deprecated; one call always serves all tables.")
    embedding_prefetch_capacity: int = setting(0, "Batches whose rows may be fetched ahead, with PS; 0 is none.")
    enable_embedding_postpush: bool = setting(False, "Push gradients in the background, with PS.")
    enable_variable_prefetch: bool = setting(False, "Keep copies of dense weights in the worker, with PS.")
    enable_variable_postpush: bool = setting(False, "Push dense gradients in the background, with PS.")
    enable_sync_training: bool = setting(False, "All workers take each step together.")
    enable_partial_sync_training: bool = setting(False, "Dense weights in step, rows on PS.")
    enable_gpu_training: bool = setting(False, "The dense part runs on a GPU.")
    processes_per_gpu: int = setting(1, "Ranks that share a GPU.")
    merge_sync_training_ckpt: bool = setting(True, "All ranks of synchronous training share one model_dir.")
    mode: str = setting("train", "train, eval or infer.")
    partial_recovery: bool | None = setting(None, "Restore only the PS that are new after a failure.")
    tide_start_hour: int | None = setting(None, "Start, in UTC, of the daily window for shared machines.")
    tide_start_minute: int | None = setting(None, "Minute of the start.")
    tide_end_hour: int | None = setting(None, "End of the window; before the start, it means the next day.")
    tide_end_minute: int | None = setting(None, "Minute of the end.")
    tide_save_secs: int | None = setting(None, "Seconds between snapshots outside the window.")
    enable_realtime_training: bool = setting(False, "Send what was learned to serving all the time.")
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
    enable_async_optimize: bool = setting(False, "Synchronous training steps rows in the background.")
    enable_pipelined_fwda2a: bool = setting(False, "Overlap the exchange of rows with computing.")
    enable_pipelined_bwda2a: bool = setting(False, "Overlap the exchange of gradients with computing.")
    enable_local_profiling: bool = setting(False, "Profile runs of one process, from the first step on.")
    profile_some_steps_from: int | None = setting(None, "First step that is profiled.")
    profile_save_steps_interval: int = setting(5000, "Steps from one profile to the next.", flag=False)
    profile_with_nvprof_from_to: str | None = setting(None, 'Steps of a CUDA profile, "begin,end".')
    reorder_fids_in_data_pipeline: bool = setting(False, "Sort ids by shard while data are read.")
    chief_timeout_secs: int = setting(1800, "How long the chief waits for the workers at the end.")
    save_checkpoints_secs: float | None = setting(None, "A snapshot this often, in seconds.")
    save_checkpoints_steps: int | None = setting(None, "A snapshot at every n-th step.")
    delta_every_steps: int | None = setting(None, "What changed since the last save, at every n-th step.")
    dense_only_save_checkpoints_secs: float | None = setting(None, "A snapshot of dense weights alone, in seconds.")
    dense_only_save_checkpoints_steps: int | None = setting(None, "A snapshot of dense weights alone, in steps.")
    dense_only_stop_training_when_save: bool = setting(False, "Workers wait while dense weights alone are saved.")
    ignore_save_errors: bool | None = setting(None, "Train on when a save fails; None is only in real-time training.")
    mirror_dir: str | None = setting(
        None, "A URL (s3://...) or folder with a copy of every snapshot and delta; an empty model_dir starts from it."
    )
    no_first_save: bool = setting(False, "No snapshot before the first step; an early crash loses all training.")
    warmup_file: str = setting("./warmup_file", "Requests that a server answers before it is asked.")
    skip_zero_embedding_when_serving: bool = setting(False, "Serving tables leave out rows that are all zeros.")
    max_rpc_deadline_millis: int = setting(30_000, "How long a server waits for rows of another.")
    checkpoints_max_to_keep: int = setting(10, "Snapshots kept; older ones are removed.")
    submit_time_secs: int | None = setting(None, "When the job was submitted, for the throughput metric.")
    containers_ready_time_secs: int | None = setting(None, "When its containers were ready.")
    cluster_type: str = setting("stable", "stable, tide or k8s: a tag of metrics.")
    max_slow_start_wait_minute: int = setting(10, "The longest a worker waits for its slow start.")
    enable_model_ckpt_info: bool = setting(False, "Write the number of ids per slot beside snapshots.")
    feature_eviction_on_save: bool = setting(False, "Remove expired rows when a snapshot is written.")
    only_feature_engineering: bool = setting(False, "Write parsed features instead of training.")
    enable_variable_partition: bool = setting(True, "Split large dense weights over the PS.")
    enable_fused_layout: bool = setting(False, "Lay out all features of a batch with one native call.")
    force_shutdown_ps: bool = setting(False, "End the PS with the workers, in real-time training too.")
    clear_nn: bool = setting(False, "Restore rows but begin with new dense weights.")
    continue_training: bool = setting(False, "With clear_nn, go on counting steps.")
    reload_alias_map: Mapping[str, str] | None = setting(None, "New name -> old name of dense weights.", flag=False)
    enable_alias_map_auto_gen: bool | None = setting(None, "Guess the names of renamed dense weights; None is yes.")
    enable_model_dump: bool = setting(False, "Write down the model's definition beside its snapshots.")
    keep_strings: bool = setting(False, "Remember the texts that became ids, for commands that show rows.")
    enable_resource_constrained_roughsort: bool = setting(False, "Keep item rows of a rough sort after training.")
    roughsort_candidate_items_path: str | None = setting(None, "Where the items of a rough sort are.")
    roughsort_items_use_parquet: bool = setting(False, "They are Parquet files.")
    items_input_lagrangex_header: bool = setting(False, "Framing of the item file.")
    items_input_has_sort_id: bool = setting(False, "Framing of the item file.")
    items_input_kafka_dump: bool = setting(False, "Framing of the item file.")
    items_input_kafka_dump_prefix: bool = setting(False, "Framing of the item file.")
    device_fn: Callable[..., Any] | None = setting(None, "Where dense weights live.", flag=False)
    use_dataservice: bool | None = setting(None, "Read batches from a data service.")
    num_extra_dsworker_on_gpu_worker: int = setting(0, "Data workers beside each GPU worker.")
    save_summary_steps: int = setting(100, "Summaries for TensorBoard at every n-th step; 0 writes none.")
    log_step_count_steps: int = setting(100, "Without a terminal, a line at every n-th step; 0 prints none.")
    metric_window: int = setting(100_000, "Predictions over which AUC and log loss of training are computed.")
    evict_every_seconds: int = setting(3600, "Remove expired rows this often, in seconds of event time; 0 never.")
    event_time_jump_seconds: int = setting(86_400, "A time further ahead than this does not move event time.")
    event_time_jump_events: int = setting(64, "This many consecutive events of a partition that agree do.")
    seed: int | None = setting(0, "What torch's generator starts from before the model is made.")
    compile: bool = setting(False, "Compile the dense part with torch.compile; takes half a minute at the start.")
    autocast: bool = setting(False, "Compute the dense part in bfloat16 where that is safe.")
    deterministic: bool = setting(False, "Use only operations that give the same bits every time.")
    enable_controller: bool = setting(False, "Let `monolith control` pause, resume and save this run.")
    metrics_port: int = setting(0, "Port of 127.0.0.1 where Prometheus finds the run's counters; 0 opens none.")

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        for name, choices in (("server_type", SERVER_TYPES), ("mode", MODES)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{type(self).__name__}: {name} must be {' or '.join(choices)}, got {getattr(self, name)!r}"
                )
        lowest = {"checkpoints_max_to_keep": 1, "metric_window": 1, "evict_every_seconds": 0, "num_ps": 0}
        lowest |= {"num_workers": 1, "log_step_count_steps": 0, "save_summary_steps": 0, "metrics_port": 0}
        lowest |= {"event_time_jump_seconds": 1, "event_time_jump_events": 1}
        for name, value in lowest.items():
            if getattr(self, name) < value:
                raise ValueError(f"{type(self).__name__}: {name} must be at least {value}, got {getattr(self, name)}")
        if self.delta_every_steps is not None and self.delta_every_steps <= 0:
            raise ValueError(
                f"{type(self).__name__}: delta_every_steps must be positive, got {self.delta_every_steps}; None leaves "
                "it out"
            )
        for kind in ("save_checkpoints", "dense_only_save_checkpoints"):
            secs, steps = (getattr(self, f"{kind}_{unit}") for unit in ("secs", "steps"))
            if secs is not None and steps is not None:
                raise ValueError(f"Can not provide both {kind}_secs and {kind}_steps. Leave one out.")
            for unit, value in (("secs", secs), ("steps", steps)):
                if value is not None and value <= 0:
                    raise ValueError(
                        f"{type(self).__name__}: {kind}_{unit} must be positive, got {value}; None leaves it out"
                    )

    @property
    def enable_full_sync_training(self) -> bool:
        """All weights and rows are trained in step."""
        return self.enable_sync_training and not self.enable_partial_sync_training

    @property
    def ignores_save_errors(self) -> bool:
        """A save that fails twice is logged, and training goes on."""
        return self.enable_realtime_training if self.ignore_save_errors is None else self.ignore_save_errors

    @property
    def snapshot_seconds(self) -> float | None:
        """Seconds between snapshots that are in force; 60 if nothing was said."""
        if self.save_checkpoints_secs is None and self.save_checkpoints_steps is None:
            return DEFAULT_SNAPSHOT_SECONDS
        return self.save_checkpoints_secs


@dataclass(kw_only=True)
class DistributedCpuTrainingConfig(CpuTrainingConfig):
    """What a job of several processes needs to know besides."""

    model_dir: str | Path = setting("", "Folder of the snapshots; a run continues from the newest one in it.")
    tensorboard_log_path: str = setting("", "Folder of TensorBoard's event files; model_dir if empty.")
    intra_op_parallelism_threads: int = setting(8, "Threads of one operation; 8 leaves the number to torch.")
    inter_op_parallelism_threads: int = setting(16, "Operations at the same time; 16 leaves the number to torch.")
    num_extra_ps: int = setting(0, "Spare PS; the slowest of all are not used.")
    num_redundant_ps: int = setting(0, "Spare PS that wait for one to fail.")
    uuid: str = setting("", "Name of the job, for files that its processes share.")
    operation_timeout_in_ms: int = setting(-1, "The longest a request between processes may take; -1 is forever.")
    session_creation_timeout_secs: int = setting(7200, "How long processes wait for each other at the start.")
    max_retry_times: int = setting(0, "Restarts of a worker; 0 is 6 with partial recovery, else none.")
    retry_wait_in_secs: int = setting(30, "Pause before a restart.")
    fountain_zk_host: str = setting("", "Unused.")
    fountain_model_name: str = setting("", "Unused.")
    dc_aware: bool = setting(False, "Prefer processes of the same data centre.")


def is_chief(config: CpuTrainingConfig) -> bool:
    """Return whether this process is the chief: worker 0."""
    return config.server_type == "worker" and config.index == 0
