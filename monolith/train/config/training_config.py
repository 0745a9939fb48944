"""How a model is trained, in one process or many: the settings, with the original's names and defaults."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monolith.train.config.setting import setting
from monolith.train.config.shared_settings import SharedJobSettings, SharedTrainingSettings

DEFAULT_SNAPSHOT_SECONDS = 60.0
DATA_ROLES = ("dispatcher", "dsworker")
"""Processes of a job that read its data."""

SERVER_TYPES = ("worker", "ps", *DATA_ROLES)
CHIEF = "chief"
"""Another word for worker 0."""

MODES = ("train", "eval", "infer")
ROW_GRADIENTS = ("mean", "sum")

MAX_PORT = 65_535


@dataclass(kw_only=True)
class CpuTrainingConfig(SharedTrainingSettings):
    """What the training loop of one process needs to know.

    >>> CpuTrainingConfig().filter_type
    'sliding_hash_filter'
    """

    server_type: str = setting("worker", "What this process is: worker, ps, dispatcher or dsworker; chief is worker 0.")
    index: int = setting(0, "Which of its kind this process is; worker 0 is the chief.")
    model_name: str = setting("", "Name in metrics and serving; if empty, the model's own name.")
    filter_capacity: int = setting(300_000_000, "Ids that the admission filter can count.")
    filter_split_num: int = setting(7, "Parts of the sliding filter; it forgets the oldest part first.")
    filter_type: str = setting("sliding_hash_filter", "sliding_hash_filter, probabilistic_filter or no_filter.")
    filter_equal_probability: bool = setting(
        True, "The probabilistic filter gives every event of an id the same chance."
    )
    hashtable_init_capacity: int = setting(0, "Rows that each table reserves at the start; 0: as its feature says.")
    embedding_prefetch_capacity: int = setting(
        0, "Batches whose rows may be fetched ahead, with PS or ranks; 0 is none."
    )
    enable_embedding_postpush: bool = setting(False, "Push gradients of rows and weights in the background, with PS.")
    enable_variable_prefetch: bool = setting(False, "Keep copies of dense weights in the worker, with PS.")
    enable_variable_postpush: bool = setting(False, "The same as enable_embedding_postpush.")
    enable_gpu_training: bool = setting(False, "The dense part runs on a GPU.")
    processes_per_gpu: int = setting(1, "Ranks that share a GPU.")
    merge_sync_training_ckpt: bool = setting(True, "All ranks of synchronous training share one model_dir.")
    mode: str = setting("train", "train, eval or infer.")
    partial_recovery: bool | None = setting(
        None, "Restore only the PS that are new after a failure; None: only in real-time training."
    )
    enable_realtime_training: bool = setting(False, "Send changes to the servers while training.")
    enable_async_optimize: bool = setting(
        False, "Ranks step rows in the background; the rows of the next batch may lack that step."
    )
    enable_pipelined_fwda2a: bool = setting(
        False, "Ranks exchange the ids of the next batch while they compute; the same results."
    )
    enable_pipelined_bwda2a: bool = setting(
        False, "Ranks exchange gradients of rows while they step dense weights; the same results."
    )
    reorder_fids_in_data_pipeline: bool = setting(False, "Sort ids by shard while data are read.")
    dense_only_stop_training_when_save: bool = setting(False, "Workers wait during a save of dense weights alone.")
    submit_time_secs: int | None = setting(None, "Time at which the job was submitted, for the throughput metric.")
    containers_ready_time_secs: int | None = setting(None, "When its containers were ready.")
    cluster_type: str = setting("stable", "Tag of metrics: stable, tide or k8s.")
    max_slow_start_wait_minute: int = setting(10, "The longest a worker waits for its slow start.")
    enable_model_ckpt_info: bool = setting(False, "Write the number of ids per slot beside snapshots.")
    only_feature_engineering: bool = setting(False, "Write parsed features instead of training.")
    enable_variable_partition: bool = setting(True, "Split large dense weights over the PS.")
    force_shutdown_ps: bool = setting(False, "End the PS with the workers, in real-time training too.")
    enable_resource_constrained_roughsort: bool = setting(False, "Keep item rows of a rough sort after training.")
    roughsort_candidate_items_path: str | None = setting(None, "Where the items of a rough sort are.")
    roughsort_items_use_parquet: bool = setting(False, "They are Parquet files.")
    items_input_lagrangex_header: bool = setting(False, "Framing of the item file.")
    items_input_has_sort_id: bool = setting(False, "Framing of the item file.")
    items_input_kafka_dump: bool = setting(False, "Framing of the item file.")
    items_input_kafka_dump_prefix: bool = setting(False, "Framing of the item file.")
    device_fn: Callable[..., Any] | None = setting(None, "Where dense weights live.", flag=False)
    use_dataservice: bool | None = setting(None, "Read batches from a data service.")
    num_extra_dsworker_on_gpu_worker: int = setting(0, "Data workers in the process of each worker.")

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        for name, choices in (
            ("server_type", (*SERVER_TYPES, CHIEF)),
            ("mode", MODES),
            ("sync_row_gradients", ROW_GRADIENTS),
        ):
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
        if self.metrics_port > MAX_PORT:
            raise ValueError(f"{type(self).__name__}: metrics_port must be at most {MAX_PORT}, got {self.metrics_port}")
        self._check_cadences()

    def _check_cadences(self) -> None:
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
class DistributedCpuTrainingConfig(CpuTrainingConfig, SharedJobSettings):
    """What a job of several processes needs to know besides."""

    tensorboard_log_path: str = setting("", "Folder of TensorBoard's event files; model_dir if empty.")
    intra_op_parallelism_threads: int = setting(8, "Threads of one operation; 8 leaves the number to torch.")
    inter_op_parallelism_threads: int = setting(16, "Operations at the same time; 16 leaves the number to torch.")
    uuid: str = setting("", "Name of the job in Consul or ZooKeeper.")
    max_retry_times: int = setting(
        0, "How often a process may begin again with other PS; 0: 6 times with partial recovery, else never."
    )
    retry_wait_in_secs: int = setting(30, "Seconds before a process that lost another begins again.")
    fountain_zk_host: str = setting("", "Unused.")
    fountain_model_name: str = setting("", "Unused.")
    dc_aware: bool = setting(False, "Prefer processes of the same data centre.")


def is_chief(config: CpuTrainingConfig) -> bool:
    """Return whether this process is the chief: worker 0."""
    return config.server_type == "worker" and config.index == 0
