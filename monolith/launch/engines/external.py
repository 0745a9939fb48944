"""ExternalEngine: what a scheduler has to run, in print."""

import json
import shlex
from collections.abc import Callable

from monolith.launch.engines.job import Job

_PAGE = """\
# A job of {num_servers} parameter servers and {num_workers} workers{readers}.
# Run each command below as a process of its own.
# All of them need the folder {folder}. They need no environment variable.
# Status 0: it is done. Status 2: it was started wrongly; do not start it again. Any other end: start it again.
# Status 3 of the chief: `monolith scale` stopped the job; start all of it with the numbers in cluster/scale.json there.
# SIGTERM to the chief ends the job in order: workers finish their batch, the chief saves, the servers end."""


class ExternalEngine:
    """Prints the command of every process, for any scheduler that starts processes and starts them again."""

    def __init__(self, say: Callable[[str], None], *, as_json: bool = False) -> None:
        """Print by `say`: lines that a shell can read, or one JSON object."""
        self._say, self._as_json = say, as_json

    def run(self, job: Job) -> int:
        """Print all commands; return 0."""
        if self._as_json:
            roles = [
                {"name": role.name, "server_type": role.server_type, "index": role.index,
                 "command": ["monolith", *role.arguments]}
                for role in job.roles()
            ]  # fmt: skip
            self._say(json.dumps({"folder": job.folder, "roles": roles}))
            return 0
        readers = f", with a dispatcher and {job.num_dsworkers} data workers" if job.num_dsworkers else ""
        self._say(
            _PAGE.format(num_servers=job.num_servers, num_workers=job.num_workers, readers=readers, folder=job.folder)
        )
        for role in job.roles():
            self._say(f"# {role.name}\n{shlex.join(['monolith', *role.arguments])}")
        return 0
