"""Ranks for tests: processes of one gloo group that run a function and report what it returns."""

import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from monolith._core import native
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS


def _rank(
    job: Callable[..., Any], arguments: tuple[Any, ...], meeting: str, rank: int, size: int, reports: Any
) -> None:
    # All addresses of this machine's name may be wrong; ranks of a test are on this machine.
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    native.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=PATIENCE_SECONDS / 3),
        )
        reports.put((rank, True, job(*arguments)))
        dist.destroy_process_group()
    except BaseException:  # noqa: BLE001  whatever it is, the test prints it
        reports.put((rank, False, traceback.format_exc()))


def run_ranks(size: int, folder: Path, job: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return what `job` returns on every rank; the test fails with the traceback of one that fails."""
    reports = PROCESSES.Queue()
    meeting = str(folder / f"meeting-{os.urandom(4).hex()}")
    ranks = [
        PROCESSES.Process(target=_rank, args=(job, arguments, meeting, rank, size, reports), daemon=True)
        for rank in range(size)
    ]
    try:
        for rank in ranks:
            rank.start()
        found = dict((rank, (ok, value)) for rank, ok, value in (reports.get(timeout=PATIENCE_SECONDS) for _ in ranks))
    finally:
        for rank in ranks:
            rank.join(5)
            rank.kill()
    for rank, (ok, value) in sorted(found.items()):
        assert ok, f"rank {rank}: {value}"
    return [found[rank][1] for rank in range(size)]
