"""What `monolith launch` does."""

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from monolith.cli.console import console
from monolith.cli.job.view import JobView
from monolith.cli.models.flags import TrainFlags
from monolith.launch.supervisor import JobRole, Supervisor, SupervisorConfig
from monolith.train.config import flag_kinds, flag_name

LOG_FOLDER = "logs"

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
    _check_discovery(settings)
    num_ps, num_workers = settings.get("num_ps", 1), settings.get("num_workers", 1)
    num_spares = settings.get("num_extra_ps", 0) + settings.get("num_redundant_ps", 0)
    if num_ps < 1:
        raise ValueError("a job of several processes has --num-ps of at least 1; `monolith train` is one process")
    config = SupervisorConfig(max_restarts=own["max_restarts"], stop_seconds=own["stop_seconds"])
    arguments = flags_of({**passed, "num_ps": num_ps, "num_workers": num_workers})
    with JobView(console) as view:
        roles = roles_of(model, arguments, num_ps + num_spares, num_workers)
        supervisor = Supervisor(roles, Path(folder) / LOG_FOLDER, config, say=view.say)
        status = supervisor.run(lambda: view.show(supervisor.processes))
    raise typer.Exit(status)


def _check_discovery(settings: Mapping[str, Any]) -> None:
    """Reject what says the role of one process, or leaves open how many of a list are meant."""
    kind = settings.get("discovery_type")
    if settings.get("tf_config") or (kind is not None and kind.name in ("PRIMUS", "MLP")):
        raise ValueError(
            "TF_CONFIG and the MLP platform say the role of one process, and `monolith launch` starts all; let the "
            "scheduler start `monolith train`, or leave out --discovery-type and --tf-config"
        )
    if str(settings.get("discovery", "")).startswith("static:") and not {"num_ps", "num_workers"} <= settings.keys():
        raise ValueError("with a list of addresses, say --num-ps and --num-workers: how many of it to start")


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
