"""RunnerConfig: the settings of a run, from code and command line."""

from dataclasses import dataclass, field, fields
from enum import Enum

from monolith.cluster.platform.mpi import add_mpi_exception_hook
from monolith.train.config.command_line import merge_command_line
from monolith.train.config.setting import setting
from monolith.train.config.shared_settings import SharedRunnerSettings
from monolith.train.config.training_config import DistributedCpuTrainingConfig

ADDRESS_FAMILIES = ("ipv4", "ipv6")


class ServiceDiscoveryType(Enum):
    """How processes find each other."""

    PRIMUS = 1
    CONSUL = 2
    ZK = 3
    MLP = 4


@dataclass(kw_only=True)
class RunnerConfig(DistributedCpuTrainingConfig, SharedRunnerSettings):
    """Everything about a run. A value set here that differs from its default wins, then the command line.

    >>> RunnerConfig(is_local=True).checkpoints_max_to_keep
    10
    """

    task: str | None = setting(None, "The model, where none is given: module:Class, or the name of a registered one.")
    tf_config: str | None = setting(
        None, "The cluster as JSON, for discovery_type=primus; by default TF_CONFIG of the environment."
    )
    deep_insight_name: str | None = setting(None, "Name of the model in metrics.")
    discovery_type: ServiceDiscoveryType = setting(ServiceDiscoveryType.CONSUL, "primus, consul, zk or mlp.")
    zk_server: str | None = setting(
        None, "Servers of ZooKeeper, several by comma; for bzid by default those of the environment's zk_servers."
    )
    zk_watch_address_family: str = setting("ipv4", "Kind of address that is looked for: ipv4 or ipv6.")
    enable_fid_dedup: bool = setting(False, "Accepted; ids of a batch are always made unique.")
    tf_grpc_worker_cache_threads: int = setting(16, "Exported to TF_GRPC_WORKER_CACHE_THREADS.")
    monolith_grpc_worker_service_handler_multiplier: float = setting(
        1.0, "Exported to MONOLITH_GRPC_WORKER_SERVICE_HANDLER_MULTIPLIER."
    )
    params_override: str | None = setting(None, "Parameters of the model as a JSON object.")
    data_type: str | None = setting(None, "Instance, Example or ExampleBatch.")
    feature_list: str | None = setting(None, "File of the feature list.")
    lagrangex_header: bool = setting(False, "Each input record has a Lagrangex header.")
    sort_id: bool = setting(True, "Each input record has a sort id.")
    kafka_dump: bool = setting(False, "Input records come from a Kafka dump.")
    kafka_dump_prefix: bool = setting(False, "Each input record has the prefix of a Kafka dump.")
    deep_insight_target: str | None = setting(None, "Heads whose predictions go to metrics, with commas between them.")
    deep_insight_sample_ratio: float | None = setting(None, "Share of the events that go to metrics.")
    unified_serving: bool = setting(False, "With bzid: servers are found by the containers that agents bind them to.")
    use_estimator: bool = setting(False, "Accepted; the Estimator is the only way.")
    input_path: str | None = setting(None, "Root of the input files.")
    is_hourly: bool = setting(False, "The input has a folder per hour.")
    wildcard: str | None = setting(None, "Pattern of the names of input files.")
    start_date: str | None = setting(None, "First day to read, YYYYMMDD.")
    end_date: str | None = setting(None, "Day after the last one to read.")
    start_hour: int | None = setting(None, "First hour to read, on the first day.")
    end_hour: int | None = setting(None, "Hour after the last one to read.")
    enable_dynamic_sharding: bool = setting(False, "A worker that is free takes the next split of the data service.")
    max_task_num_per_worker: int = setting(1, "Splits that a worker reads at a time, with enable_dynamic_sharding.")
    data_service_dispatcher: str | None = setting(None, "Address of the data service's dispatcher.")
    from_command_line: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """Names of the settings that the command line decided."""

    derived: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """Names of settings whose values follow from other settings."""

    def __post_init__(self) -> None:
        """Apply the command line, then reject what could only fail later. Under mpirun, let a failure end all ranks."""
        add_mpi_exception_hook()
        self.from_command_line = merge_command_line(self)
        if isinstance(self.kafka_topics, str):
            self.kafka_topics = [topic.strip() for topic in self.kafka_topics.split(",") if topic.strip()]
        if self.zk_watch_address_family not in ADDRESS_FAMILIES:
            raise ValueError(
                f"RunnerConfig: zk_watch_address_family must be one of {ADDRESS_FAMILIES}, got "
                f"{self.zk_watch_address_family!r}"
            )
        super().__post_init__()

    def changed(self) -> list[str]:
        """Return the names of the settings that somebody set away from their default."""
        known = runner_defaults()
        return [name for name, default in known.items() if getattr(self, name) != default and name not in self.derived]


def runner_defaults() -> dict[str, object]:
    """Return the default of every setting, without the command line."""
    return {one.name: one.default for one in fields(RunnerConfig) if one.init}
