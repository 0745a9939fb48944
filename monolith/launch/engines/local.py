"""LocalEngine: the processes of a job on this machine, under a supervisor."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from monolith.launch.engines.job import Job
from monolith.launch.supervisor import JobRole, RoleProcess, Supervisor, SupervisorConfig

LOG_FOLDER = "logs"
"""In the folder of a job."""

ROLE_PROCESS = ("-m", "monolith.cli.job.role_process")
"""Runs a `monolith` command that ends with its parent process."""


class View(AbstractContextManager[object], Protocol):
    """Shows a job to its user, while it is entered."""

    def say(self, line: str) -> None:
        """Print a line that stays."""
        ...

    def show(self, processes: Sequence[RoleProcess]) -> None:
        """Show how all processes are, ten times a second."""
        ...


class LocalEngine:
    """Runs jobs on this machine; their logs are in the folder of the job."""

    def __init__(self, config: SupervisorConfig, view: View) -> None:
        """Take what happens to processes that die, and who shows them."""
        self._config, self._view = config, view

    def run(self, job: Job) -> int:
        """Run the processes until the job is done, fails, or is stopped; return 0, or 1 if it failed."""
        shapes = [job]

        def scaled() -> list[JobRole]:
            shapes.append(shapes[-1].scaled())
            return _roles(shapes[-1])

        return self.run_roles(_roles(job), job.folder, scaled)

    def run_roles(
        self, roles: Sequence[JobRole], folder: str | Path, scaled: Callable[[], Sequence[JobRole]] | None = None
    ) -> int:
        """Run these processes likewise; their logs are in the folder. For `scaled`, see `Supervisor`."""
        with self._view:
            supervisor = Supervisor(roles, Path(folder) / LOG_FOLDER, self._config, say=self._view.say, scaled=scaled)
            return supervisor.run(lambda: self._view.show(supervisor.processes))


def _roles(job: Job) -> list[JobRole]:
    return [
        JobRole(
            name=role.name,
            command=[sys.executable, *ROLE_PROCESS, *role.arguments],
            is_leader=role.is_leader,
            is_server=role.is_server,
        )
        for role in job.roles()
    ]
