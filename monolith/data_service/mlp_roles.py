"""mlp_pass: the part of a process in the data service of a job on the MLP platform."""

import logging

from monolith.cluster.host_addresses import concat_ip_and_port
from monolith.cluster.platform.mlp_env import MLPEnv
from monolith.data_service.dispatch.dispatcher import Dispatcher, DispatcherConfig
from monolith.data_service.extra_workers import start_extra_workers
from monolith.data_service.worker.data_worker import DataWorker, DataWorkerConfig
from monolith.wire import TlsConfig

WAIT_SECONDS = 3600.0
"""How long processes wait for each other."""

_log = logging.getLogger(__name__)


def mlp_pass(
    dispatcher_role: str = "dispatcher",
    dsworker_role: str = "dsworker",
    worker_role: str = "worker",
    ps_role: str = "ps",
    *,
    input: str | None = None,
    num_splits: int = 32,
    state_path: str | None = None,
    num_extra_dsworkers: int = 0,
    timeout_seconds: float = WAIT_SECONDS,
    tls: TlsConfig | None = None,
    insecure: bool = False,
) -> str | None:
    """Be what MLP_ROLE says: a dispatcher or data worker until worker 0 ends, then the process exits with status 0.

    In a worker, wait for the dispatcher and all data workers, start `num_extra_dsworkers` in this process, and return
    the dispatcher's address for a `ServiceSource`. Return None in a parameter server, in a job without a dispatcher,
    and outside the platform. `Estimator.train` does the same by itself with discovery_type=mlp, and reads what the
    model's input_fn returns; this function is for programs with a loop of their own.

    Args:
        dispatcher_role: Name of the role that gives out splits.
        dsworker_role: Name of the role that reads them.
        worker_role: Name of the role that trains.
        ps_role: Name of the role of parameter servers.
        input: What to read: "module:callable". The dispatcher needs it.
        num_splits: Parts to cut it into.
        state_path: Folder of the dispatcher's memory. The dispatcher needs it.
        num_extra_dsworkers: Data workers in the process of each worker.
        timeout_seconds: How long processes wait for each other.
        tls: Certificate of this process.
        insecure: Listen to other machines without TLS.

    Raises:
        TimeoutError: A process does not answer in time; the message names it.
    """
    env = MLPEnv()
    if not env.avaiable or env.role == ps_role.upper() or not env.num_replicas(dispatcher_role):
        return None
    # A platform without SSH shows by the worker's own port that the worker is there.
    use_ssh = env.ssh_port is not None
    address = _required_address(env, dispatcher_role, 0)
    if env.role == dispatcher_role.upper():
        if not input or not state_path:
            raise ValueError(
                "the dispatcher of a data service must know what the service reads, and a folder for its memory: "
                f"mlp_pass(input='module:callable', state_path=FOLDER), got {input!r} and {state_path!r}"
            )
        config = DispatcherConfig(
            input=input, num_splits=num_splits, state_path=state_path, address=address, tls=tls, insecure=insecure
        )
        with Dispatcher(config):
            env.join(worker_role, use_ssh=use_ssh)
    if env.role == dsworker_role.upper():
        _await(env, dispatcher_role, 0, timeout_seconds)
        own = _required_address(env, dsworker_role, env.index)
        with DataWorker(DataWorkerConfig(dispatcher=address, address=own, input=input, tls=tls, insecure=insecure)):
            _start_profiler(env)
            env.join(worker_role, use_ssh=use_ssh)
    if env.role != worker_role.upper():
        return None
    _await(env, dispatcher_role, 0, timeout_seconds)
    for index in range(env.num_replicas(dsworker_role)):
        _await(env, dsworker_role, index, timeout_seconds)
    extra = DataWorkerConfig(dispatcher=address, address=_own_address(env), input=input, tls=tls, insecure=insecure)
    start_extra_workers(num_extra_dsworkers, extra)
    _log.info("worker %d starts, of the roles %s; data comes from %s", env.index, env.all_roles, address)
    return address


def _await(env: MLPEnv, role: str, index: int, timeout_seconds: float) -> None:
    if not env.wait(role, index, timeout=timeout_seconds, use_ssh=False):
        address = env.get_addr(role, index)
        raise TimeoutError(f"waited {timeout_seconds:g} seconds for {role} {index} at {address}; start it")


def _required_address(env: MLPEnv, role: str, index: int) -> str:
    address = env.get_addr(role, index)
    if address is None:
        raise ValueError(f"the platform names no host and port of {role} {index}")
    return address


def _own_address(env: MLPEnv) -> str:
    """Return where processes of this host are reached, at any port."""
    return concat_ip_and_port((env.get_host() or env.host).strip("[]"), 0)


def _start_profiler(env: MLPEnv) -> None:
    try:
        env.start_profiler()
    except OSError as error:  # another data worker of this host has the port
        _log.warning("this data worker cannot be profiled: %s", error)
