"""The ranks of synchronous training, and the servers of their rows, as processes on this machine."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from monolith.launch.engines.local import ROLE_PROCESS
from monolith.launch.supervisor import JobRole

MEETING_FILE = "MONOLITH_RANKS_MEET_IN"
"""As `monolith.parallel.ranks` has it, which needs torch."""


def servers_of(model: str, flags: Sequence[str], num_ps: int) -> list[JobRole]:
    """Return the parameter servers that hold the rows of ranks."""
    return [
        JobRole(
            name=f"ps {index}",
            command=[
                *[sys.executable, *ROLE_PROCESS, "train", model, *flags],
                *["--server-type=ps", f"--index={index}"],
            ],
            is_server=True,
        )
        for index in range(num_ps)
    ]


def ranks_of(model: str, flags: Sequence[str], num_ranks: int, meetings: Path) -> list[JobRole]:
    """Return the ranks; they meet in a new file of the folder at every start."""

    def environment(rank: int, num_restarts: int) -> dict[str, str]:
        count = str(num_ranks)
        where = str(meetings / str(num_restarts))
        return {"RANK": str(rank), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, MEETING_FILE: where}

    return [
        JobRole(
            name=f"rank {rank}",
            command=[sys.executable, *ROLE_PROCESS, "train", model, *flags],
            is_leader=rank == 0,
            environment=partial(environment, rank),
        )
        for rank in range(num_ranks)
    ]
