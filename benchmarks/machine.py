"""Facts about the machine and the build, without which a figure says little."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from monolith._core import native

ROOT = Path(__file__).resolve().parent.parent
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MEMORY = Path("/proc/meminfo")
_PROCESSOR = Path("/proc/cpuinfo")


def num_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_facts() -> dict[str, Any]:
    """Return what a result is stored with."""
    return {
        "cores": num_cores(),
        "processor": _field(_PROCESSOR, "model name") or platform.processor() or platform.machine(),
        "memory_bytes": _memory_bytes("MemTotal"),
        "transparent_huge_pages": _HUGE_PAGES.read_text().strip() if _HUGE_PAGES.exists() else None,
        "load_average": list(os.getloadavg()),
        "simd_level": native.simd_level(),
        "native_threads": native.num_threads(),
        "torch": torch.__version__,
        "torch_threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "git_commit": _git_commit(),
    }


def require_memory(num_bytes: int) -> None:
    """Raise MemoryError now rather than be killed by the kernel half an hour later."""
    available = _memory_bytes("MemAvailable")
    if available is not None and available < num_bytes:
        raise MemoryError(
            f"this benchmark needs {num_bytes / 2**30:.1f} GiB of memory and {available / 2**30:.1f} GiB are free; "
            "end other programs, or pass --quick"
        )


def busy_notice() -> str | None:
    """Return a warning if others use the cores: threads that wait for each other then lose more than their share."""
    load = os.getloadavg()[0]
    if load <= num_cores() / 2:
        return None
    return f"the machine was busy at the start (load {load:.1f} on {num_cores()} cores): do not trust these figures"


def _field(path: Path, name: str) -> str | None:
    if not path.exists():
        return None
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), None)


def _memory_bytes(name: str) -> int | None:
    kibibytes = _field(_MEMORY, name)
    return None if kibibytes is None else int(kibibytes.split()[0]) * 1024


def _git_commit() -> str | None:
    """Return the commit, marked `-dirty` if files differ from it; None outside a checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],
            cwd=ROOT, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
