"""Which process this is, in a form that another process on the same machine can check later."""

import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_PROC = Path("/proc")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessMark:
    """Names one process among all that ever ran on a host."""

    host: str

    boot: str
    """The boot of the host; empty where the system does not say."""

    namespace: str
    """The set of process numbers that `pid` belongs to: containers have their own."""

    pid: int

    started: str
    """When the process started, in ticks since boot; empty where the system does not say."""

    @classmethod
    def here(cls) -> "ProcessMark":
        """Return the mark of this process."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(), boot=_boot(), namespace=_namespace(), pid=pid, started=_start_of(pid) or ""
        )

    @classmethod
    def from_json(cls, value: Any) -> "ProcessMark":
        """Read what `as_json` returned; ValueError for anything else."""
        names = {"host": str, "boot": str, "namespace": str, "pid": int, "started": str}
        if not isinstance(value, dict) or {name: type(one) for name, one in value.items()} != names:
            raise ValueError(f"a process is {sorted(names)}, got {value!r}")
        return cls(**value)

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)

    def is_certainly_dead(self) -> bool:
        """Whether the process is known to be gone; False about other hosts and other containers, which are unknown."""
        if self.host != socket.gethostname():
            return False
        if _certainly_differ(self.boot, _boot()):
            return True
        if self.namespace != _namespace():
            return False
        start = _start_of(self.pid)
        return start is None or _certainly_differ(start, self.started)


def _certainly_differ(left: str, right: str) -> bool:
    """Whether both are known and differ: a text is empty if it could not be read, say for want of open files."""
    return left != "" and right != "" and left != right


def _boot() -> str:
    return _read(_PROC / "sys/kernel/random/boot_id")


def _namespace() -> str:
    try:
        return os.readlink(_PROC / "self/ns/pid")
    except OSError:
        return ""


def _start_of(pid: int) -> str | None:
    """Return when a process started, "" if only its existence is known; None if no process has this number."""
    stat = _read(_PROC / str(pid) / "stat")
    if stat:
        # The second field is the program's name in parentheses, which may hold spaces; the start is the 22nd.
        fields = stat.rpartition(")")[2].split()
        # A zombie runs nothing more: its parent has not asked for its exit status yet.
        return None if fields[0] in "ZX" else fields[19]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
