"""What `monolith launch` does."""

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from monolith.cli.console import console
from monolith.cli.job.view import JobView
from monolith.cli.models.flags import TrainFlags
from monolith.launch.supervisor import JobRole, Supervisor, SupervisorConfig
from monolith.train.config import flag_kinds, flag_name

LOG_FOLDER = "logs"

MEETING_FILE = "MONOLITH_RANKS_MEET_IN"
"""As `monolith.parallel.ranks` has it, which needs torch."""

_OWN = ("server_type", "index")


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Start the processes, watch them, and exit with the status of the job."""
    for name in _OWN:
        if name in settings:
            raise ValueError(f"{flag_name(name)} is for one process, and `monolith launch` starts all; leave it out")
    folder = settings.get("model_dir")
    if not folder:
        raise ValueError("monolith launch needs --model-dir, the folder that its processes have in common")
    known = flag_kinds(TrainFlags)
    passed = {name: value for name, value in {**settings, **own}.items() if name in known}
    is_sync = own["sync"] or settings.get("enable_sync_training", False)
    config = SupervisorConfig(max_restarts=own["max_restarts"], stop_seconds=own["stop_seconds"], restarts_all=is_sync)
    with JobView(console) as view, TemporaryDirectory(prefix="monolith-ranks-") as meetings:
        roles = (
            _ranks(model, settings, passed, Path(meetings))
            if is_sync
            else _servers_and_workers(model, settings, passed)
        )
        supervisor = Supervisor(roles, Path(folder) / LOG_FOLDER, config, say=view.say)
        status = supervisor.run(lambda: view.show(supervisor.processes))
    raise typer.Exit(status)


def _servers_and_workers(model: str, settings: Mapping[str, Any], passed: Mapping[str, Any]) -> list[JobRole]:
    num_ps, num_workers = settings.get("num_ps", 1), settings.get("num_workers", 1)
    if num_ps < 1:
        raise ValueError(
            "a job of several processes has --num-ps of at least 1, or --sync; `monolith train` is one process"
        )
    arguments = flags_of({**passed, "num_ps": num_ps, "num_workers": num_workers})
    return roles_of(model, arguments, num_ps, num_workers)


def _ranks(model: str, settings: Mapping[str, Any], passed: Mapping[str, Any], meetings: Path) -> list[JobRole]:
    """Return the ranks of a synchronous job; they meet in a new file at every start."""
    if settings.get("num_ps"):
        raise ValueError(
            f"--num-ps={settings['num_ps']}: in synchronous training the ranks hold the rows themselves; leave it out"
        )
    num_ranks = settings.get("num_workers", 2)
    arguments = flags_of({**passed, "num_workers": num_ranks, "enable_sync_training": True})

    def environment(rank: int, num_restarts: int) -> dict[str, str]:
        count = str(num_ranks)
        where = str(meetings / str(num_restarts))
        return {"RANK": str(rank), "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, MEETING_FILE: where}

    return [
        JobRole(
            name=f"rank {rank}",
            command=[sys.executable, "-m", "monolith.cli.job.role_process", "train", model, *arguments],
            is_leader=rank == 0,
            environment=partial(environment, rank),
        )
        for rank in range(num_ranks)
    ]


def roles_of(model: str, arguments: Sequence[str], num_ps: int, num_workers: int) -> list[JobRole]:
    """Return the processes of a job; each is a `monolith train` with its own role."""

    def role(name: str, server_type: str, index: int) -> JobRole:
        command = [sys.executable, "-m", "monolith.cli.job.role_process", "train", model, *arguments]
        return JobRole(
            name=name,
            command=[*command, f"--server-type={server_type}", f"--index={index}"],
            is_leader=name == "chief",
            is_server=server_type == "ps",
        )

    workers = [role("chief" if index == 0 else f"worker {index}", "worker", index) for index in range(num_workers)]
    return [*(role(f"ps {index}", "ps", index) for index in range(num_ps)), *workers]


def flags_of(values: Mapping[str, Any]) -> list[str]:
    """Return flags that say these values.

    >>> flags_of({"num_ps": 2, "compile": True, "seed": None})
    ['--num-ps=2', '--compile=true']
    """
    return [f"{flag_name(name)}={_text(value)}" for name, value in values.items() if value is not None]


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name.lower()
    return str(value).lower() if isinstance(value, bool) else str(value)
