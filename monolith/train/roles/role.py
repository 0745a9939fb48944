"""with_role: which process of a job this one is."""

import copy
import warnings

from monolith.cluster.discovery import discovery_from
from monolith.cluster.platform.mpi import get_mpi_rank, get_mpi_size, is_under_mpi
from monolith.train.config.run_settings import job_config
from monolith.train.config.runner_config import RunnerConfig, ServiceDiscoveryType
from monolith.train.config.training_config import CHIEF, DATA_ROLES, SERVER_TYPES
from monolith.train.roles.cluster import ListedCluster
from monolith.train.roles.discovery import asked_discovery, asked_type

_SAY_ALL = (ServiceDiscoveryType.PRIMUS, ServiceDiscoveryType.MLP)


def with_role(config: RunnerConfig) -> RunnerConfig:
    """Return the configuration with the role of this process, and the number of others, filled in.

    TF_CONFIG and the MLP platform say the role. Under mpirun the rank does, unless `index` is set: servers come first
    if mpirun starts all processes of the job, else it is the index. A list of addresses says how many there are.

    Raises:
        ValueError: two of these contradict each other, or a setting about other processes is set for a run of one.
    """
    if config.is_local:
        return config
    if config.enable_full_sync_training:
        if config.discovery:
            raise ValueError(
                f"discovery={config.discovery!r} is for parameter servers; ranks of synchronous training meet as "
                "torchrun, mpirun or `monolith launch` says, so leave it out"
            )
        return config
    found = copy.copy(config)
    if found.server_type == CHIEF:
        found.server_type = _worker_for_chief(found.index)
    cluster = _listed(config)
    if cluster is not None:
        _take_counts(found, cluster)
        if cluster.dispatchers and found.use_dataservice is None:
            found.use_dataservice = True
    if cluster is not None and cluster.role is not None:
        found.server_type, found.index = cluster.role
    elif found.num_ps > 0 and is_under_mpi() and not _is_said(config, "index") and not _is_rank(found):
        found.server_type, found.index = _role_of_rank(found, _is_said(config, "server_type"))
    if found.server_type not in SERVER_TYPES:
        raise ValueError(f"Unknown server type. type: {found.server_type}")
    _check_others_exist(found)
    return found


def _worker_for_chief(index: int) -> str:
    if index:
        raise ValueError(
            f"index={index}: there is no such chief, a job has one; leave the index out, or say server_type=worker"
        )
    return "worker"


def _is_rank(config: RunnerConfig) -> bool:
    """Return whether all processes that mpirun started take each step together."""
    return config.enable_sync_training and config.server_type == "worker"


def _listed(config: RunnerConfig) -> ListedCluster | None:
    if config.discovery:
        return ListedCluster.of(discovery_from(config.discovery)) if config.discovery.startswith("static:") else None
    return ListedCluster.of(asked_discovery(config)) if asked_type(config) in _SAY_ALL else None


def _take_counts(config: RunnerConfig, cluster: ListedCluster) -> None:
    if not cluster.workers:
        raise ValueError("the list of addresses has no worker; the chief, which is worker 0, must be in it")
    num_spares, num_listed = job_config(config).num_spares, len(cluster.servers)
    if config.num_ps + num_spares > num_listed:
        spares = f" and {num_spares} spares" if num_spares else ""
        raise ValueError(f"num_ps={config.num_ps}{spares}, but {num_listed} are listed; list the others too")
    if not _is_said(config, "num_ps"):
        config.num_ps = num_listed - num_spares
    if not _is_said(config, "num_workers"):
        config.num_workers = len(cluster.workers)


def _role_of_rank(config: RunnerConfig, type_is_said: bool) -> tuple[str, int]:
    if config.server_type in DATA_ROLES:
        return config.server_type, 0 if config.server_type == "dispatcher" else get_mpi_rank()
    rank, size = get_mpi_rank(), get_mpi_size()
    num_servers = config.num_ps + job_config(config).num_spares
    counts = {"ps": num_servers, "worker": config.num_workers}
    if size == sum(counts.values()):
        role = ("ps", rank) if rank < num_servers else ("worker", rank - num_servers)
        if type_is_said and role[0] != config.server_type:
            raise ValueError(
                f"rank {rank} of mpirun is a {role[0]}, but server_type={config.server_type}; parameter servers are "
                "the first ranks"
            )
        return role
    if size == counts[config.server_type]:
        return config.server_type, rank
    raise ValueError(
        f"mpirun started {size} processes, which are neither the num_ps={config.num_ps} servers and "
        f"num_workers={config.num_workers} workers together nor the {config.server_type}s alone; start as many as "
        "there are, or set index"
    )


def _check_others_exist(config: RunnerConfig) -> None:
    """Reject, or warn about, settings that say where other processes are if there are none."""
    if config.num_ps > 0 or config.num_workers > 1 or config.server_type != "worker" or config.index > 0:
        return
    if config.discovery:
        raise ValueError(
            f"discovery={config.discovery!r} is for a job of several processes, and this run is one: set num_ps, "
            "or leave it out"
        )
    for name in ("tf_config", "zk_server", "uuid"):
        finds_servers = name == "zk_server" and config.bzid and config.enable_realtime_training
        if getattr(config, name) and not finds_servers:
            warnings.warn(f"{name} has no effect: it is for jobs, and this run is one process", stacklevel=4)


def _is_said(config: RunnerConfig, name: str) -> bool:
    return name in config.changed() or name in config.from_command_line
