"""Is the memory of this process still within its limit?"""

import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monolith.protos.machine_health_pb2 import MachineHealthResult

NO_LIMIT = 1 << 62

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """What a process may use."""

    mem_limit: int = NO_LIMIT
    """Bytes of memory; from there on it is not well."""


def machine_info(mem_limit: int | None = None, shared_name: str | None = None) -> MachineInfo:
    """Return the limits of this process; without `mem_limit` there are none. `shared_name` has no effect here."""
    return MachineInfo() if mem_limit is None else MachineInfo(mem_limit)


def check_machine_health(info: MachineInfo) -> bytes:
    """Return nothing if this process is well, otherwise a serialized `MachineHealthResult`.

    >>> check_machine_health(machine_info())
    b''
    >>> MachineHealthResult.FromString(check_machine_health(machine_info(mem_limit=0))).status
    1
    """
    used = resident_bytes()
    if used < info.mem_limit:
        return b""
    message = f"Memory limit exceeded. Current: {used}, Limit: {info.mem_limit}"
    return MachineHealthResult(status=MachineHealthResult.OUT_OF_MEMORY, message=message).SerializeToString()


def health_report(info: MachineInfo) -> dict[str, Any]:
    """Return how this process is, as JSON values: `status` and `message`, the memory it has in use, and its limit.

    >>> report = health_report(machine_info(mem_limit=1))
    >>> report["status"], report["memory_bytes"] > 1, report["memory_limit_bytes"]
    ('OUT_OF_MEMORY', True, 1)
    """
    result = MachineHealthResult.FromString(check_machine_health(info))
    return {
        "status": MachineHealthResult.Status.Name(result.status),
        "message": result.message,
        "memory_bytes": resident_bytes(),
        "memory_limit_bytes": None if info.mem_limit >= NO_LIMIT else info.mem_limit,
    }


def resident_bytes() -> int:
    """Return the memory that this process has in use; where the system does not say, the most it ever had."""
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
