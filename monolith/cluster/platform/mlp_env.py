"""MLPEnv: what the MLP platform tells a process in its environment about itself and the other roles."""

import logging
import os
import re
import time
from typing import NoReturn

from monolith.cluster.alive_check import check_port
from monolith.cluster.host_addresses import concat_ip_and_port
from monolith.cluster.platform import profiler
from monolith.cluster.platform.local_host import get_local_host
from monolith.cluster.platform.mpi import get_mpi_local_size, get_mpi_rank, get_mpi_size, is_under_mpi

DEFAULT_PORT = 2222
PROFILER_PORT = 6666
_WAIT_SECONDS = 5.0
_JOIN_SECONDS = 10.0
_ROLE_COUNT = re.compile(r"MLP_([A-Z0-9]+)_NUM")
_log = logging.getLogger(__name__)


class MLPEnv:
    """Roles, hosts and ports of a job, as they were when the object was made. Roles are written in capitals.

    Ports are numbers everywhere. (In the original some were texts.)
    """

    def __init__(self) -> None:
        self._mlp_env = {name: value for name, value in os.environ.items() if name.startswith(("MLP_", "MPI_"))}
        self.framework = self._get("MLP_FRAMEWORK")
        self.ssh_port = self._number("MLP_SSH_PORT", None)
        self.log_path = self._get("MLP_LOG_PATH")
        self.debug_port = self._number("MLP_DEBUG_PORT", None)
        self.entrypoint_dir = self._get("MLP_ENTRYPOINT_DIR")
        self.task_cmd = self._get("MLP_TASK_CMD")
        self.role = (self._get("MLP_ROLE") or "").upper()
        self.all_roles = {
            found[1]: self._number(name, 0) or 0 for name in self._mlp_env if (found := _ROLE_COUNT.fullmatch(name))
        }
        self.index: int = self._number("MLP_ROLE_INDEX", 0) or 0
        self.port: int = self._number("MLP_PORT", 0) or 0
        if self.enable_mpi:
            self.index = get_mpi_rank()
            self.all_roles["WORKER"] = get_mpi_size()
            self.port += self.index
        self.avaiable = bool(self._mlp_env and self.all_roles)
        self.cpu = self._number("MLP_CPU", None)
        self.gpu = self._number("MLP_GPU", None)
        self.gpu_type = self._get("MLP_GPU_TYPE")
        self.mem = self._get("MLP_MEM")
        self.host = get_local_host()
        self._profiler: profiler.ProfilerServer | None = None

    @property
    def enable_mpi(self) -> bool:
        """Whether this is a worker that mpirun started: its rank is its index then."""
        return is_under_mpi() and self.role == "WORKER"

    def num_replicas(self, role: str | None = None) -> int:
        """Return the number of processes of a role, this process's by default."""
        role = self._role(role)
        if role == "WORKER" and self.enable_mpi:
            return get_mpi_size()
        return self._number(f"MLP_{role}_NUM", 0) or 0

    def get_all_host(self, role: str | None = None, is_primary: bool = True) -> str | None:
        """Return the hosts of a role, by comma."""
        return self._get(f"MLP_{self._role(role)}_ALL_{_primary(is_primary)}HOSTS")

    def get_all_addrs(self, role: str | None = None, is_primary: bool = True) -> list[str]:
        """Return the addresses of a role."""
        listed = self._get(f"MLP_{self._role(role)}_ALL_{_primary(is_primary)}ADDRS")
        return listed.split(",") if listed else []

    def get_host(self, role: str | None = None, index: int | None = None, is_primary: bool = True) -> str | None:
        """Return the host of one process; workers that mpirun started share hosts."""
        role, index = self._role(role), self._index(index)
        if role == "WORKER" and self.enable_mpi:
            index //= get_mpi_local_size()
        return self._get(f"MLP_{role}_{index}_{_primary(is_primary)}HOST")

    def get_port(self, role: str | None = None, index: int | None = None) -> int:
        """Return the port of one process; 2222 (for MPI workers 2222 + index) if the platform names none."""
        port = self._port(role, index)
        if port is not None:
            return port
        is_mpi_worker = self._role(role) == "WORKER" and self.enable_mpi
        return DEFAULT_PORT + (self._index(index) if is_mpi_worker else 0)

    def get_addr(self, role: str | None = None, index: int | None = None, is_primary: bool = True) -> str | None:
        """Return "host:port" of one process; None if the platform does not name both."""
        host, port = self.get_host(role, index, is_primary), self._port(role, index)
        return None if not host or port is None else concat_ip_and_port(host.strip("[]"), port)

    def dispatcher_target(self, role: str | None = None) -> str:
        """Return the data service's dispatcher as "grpc://host:port"."""
        return f"grpc://{self.dispatcher_addr(role) or 'localhost:5050'}"

    def dispatcher_addr(self, role: str | None = None) -> str | None:
        """Return the address of the data service's dispatcher, None if there is none."""
        return self.get_addr(role or "dispatcher", 0)

    def wait(self, role: str | None = None, index: int = 0, timeout: float = -1, use_ssh: bool = True) -> bool:
        """Wait until a process's port answers, or that of SSH on its host; return whether it does.

        A negative timeout waits without a limit.
        """
        host, port = self._endpoint(role, index, use_ssh)
        end = None if timeout < 0 else time.monotonic() + timeout
        _log.info("waiting for %s %d at %s:%d", self._role(role), index, host, port)
        while not check_port(host, port):
            if end is not None and time.monotonic() >= end:
                _log.warning("%s %d at %s:%d does not answer", self._role(role), index, host, port)
                return False
            time.sleep(_WAIT_SECONDS if end is None else max(0.0, min(_WAIT_SECONDS, end - time.monotonic())))
        return True

    def join(self, role: str = "worker", index: int = 0, use_ssh: bool = True) -> NoReturn:
        """Leave this process, with status 0, when that port no longer answers."""
        self.wait(role, index, use_ssh=use_ssh)
        host, port = self._endpoint(role, index, use_ssh)
        while check_port(host, port, timeout=60):
            time.sleep(_JOIN_SECONDS)
        _log.info("%s %d at %s:%d has ended, and so does this process", self._role(role), index, host, port)
        self.stop_profiler()
        logging.shutdown()
        os._exit(0)

    @property
    def queue_device(self) -> str:
        """The place of queues: the first PS, else the first worker, else this process."""
        for role in ("PS", "WORKER"):
            if self.num_replicas(role) > 0:
                return f"/job:{role.lower()}/task:0/device:CPU:0"
        return "/device:CPU:0"

    def start_profiler(self, port: int = PROFILER_PORT) -> str:
        """Let others record a profile of this process; return the address.

        It listens on this host only. MPI workers of one host count up from `port`.
        """
        if self._profiler is None:
            offset = self.index if self.enable_mpi else 0
            self._profiler = profiler.ProfilerServer(port + offset if port else 0)
        return self._profiler.address

    def stop_profiler(self) -> None:
        """Stop what `start_profiler` started."""
        if self._profiler is not None:
            self._profiler.close()
            self._profiler = None

    def profiler_trace(
        self,
        role: str = "dsworker",
        index: int = -1,
        host_tracer_level: int = 2,
        python_tracer_level: int = 0,
        device_tracer_level: int = 1,
        delay_ms: int = 10000,
        *,
        port: int = PROFILER_PORT,
    ) -> list[str]:
        """Record `delay_ms` of all processes of a role, or of one, at the same time; return the files.

        They go to TENSORBOARD_LOG_PATH, or /tensorboard_logs/. A `python_tracer_level` above 0 records call stacks,
        a `device_tracer_level` of 0 leaves GPUs out; `host_tracer_level` changes nothing here.
        """
        folder = os.environ.get("TENSORBOARD_LOG_PATH", "/tensorboard_logs/")
        indices = range(self.num_replicas(role)) if index < 0 else [index]
        hosts = [(number, self.get_host(role, number)) for number in indices]
        missing = [number for number, host in hosts if not host]
        if missing or not hosts:
            raise ValueError(f"no process to profile: the platform names no host of {role} {missing or indices}")
        is_mpi_worker = self._role(role) == "WORKER" and self.enable_mpi
        addresses = {
            number: concat_ip_and_port(str(host).strip("[]"), port + (number if is_mpi_worker else 0))
            for number, host in hosts
        }
        return profiler.record_all(
            {f"{role}-{number}": address for number, address in addresses.items()},
            folder,
            duration_ms=delay_ms,
            with_stack=python_tracer_level > 0,
            with_device=device_tracer_level > 0,
        )

    def _get(self, name: str, default: str | None = None) -> str | None:
        value = self._mlp_env.get(name)
        return default if value is None else value.strip().strip("\"'")

    def _number(self, name: str, default: int | None) -> int | None:
        text = self._get(name)
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{name} must be a whole number, got {text!r}") from None

    def _role(self, role: str | None) -> str:
        return (role or self.role).upper()

    def _index(self, index: int | None) -> int:
        return self.index if index is None else index

    def _port(self, role: str | None, index: int | None) -> int | None:
        role, index = self._role(role), self._index(index)
        if role == "WORKER" and self.enable_mpi:
            first = self._number(f"MLP_{role}_0_PORT", None)
            return None if first is None else first + index
        return self._number(f"MLP_{role}_{index}_PORT", None)

    def _endpoint(self, role: str | None, index: int, use_ssh: bool) -> tuple[str, int]:
        host = self.get_host(role, index)
        if not host:
            raise ValueError(f"the platform names no host of {self._role(role)} {index}")
        if not use_ssh:
            return host, self.get_port(role, index)
        if self.ssh_port is None:
            raise ValueError("MLP_SSH_PORT is not set; pass use_ssh=False to wait for the process's own port")
        return host, self.ssh_port


def _primary(is_primary: bool) -> str:
    return "PRIMARY_" if is_primary else ""
