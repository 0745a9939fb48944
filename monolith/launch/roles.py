"""What a process of a job does: made from JSON, run until SIGTERM or Ctrl-C."""

import json
import logging
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from monolith.data import EventLogWriter, append_forever
from monolith.data.event_log.folder import SCHEMA_FILE
from monolith.launch.engines.job import Job
from monolith.launch.local import ProcessEndedError, role_command
from monolith.launch.movie_stream import MovieStream
from monolith.launch.supervisor import LOST, SCALED, JobRole, Supervisor, SupervisorConfig
from monolith.model.hyper_params.named_model import load_class

JOB_STOP_SECONDS = 120.0
"""How long the processes of a job may take to end in order before they are killed."""

_LOG_WAIT_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Role(Protocol):
    """One process of a job."""

    def run(self) -> int | None:
        """Do the work until told to stop; return the status of the process, if it is another than 0."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorRole:
    """Appends made-up movie events to a log."""

    log_path: str
    ready_path: str
    probe_path: str
    rate_per_second: float
    num_backlog: int = 0
    """Events that are there before the clock starts."""

    seed: int = 7

    def run(self) -> None:
        """Append at a steady rate; go on where the log ends."""
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        signal.signal(signal.SIGINT, lambda *_: stop.set())
        with EventLogWriter(self.log_path, MovieStream.schema) as writer:
            missing = self.num_backlog - writer.offset
            if missing > 0:
                writer.append(MovieStream(self.seed).events(writer.offset, missing))
        Path(self.ready_path).write_text("{}")
        stream = MovieStream(self.seed, self.probe_path)
        append_forever(self.log_path, stream, rate_per_second=self.rate_per_second, stop=stop)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerRole:
    """Trains a model on a log, and keeps servers up to date."""

    model: str
    """Where the class is: "module:Class"."""

    log_path: str
    model_dir: str
    export_base: str
    name: str
    sync_targets: list[str] = field(default_factory=list)
    batch_size: int = 512
    config: dict[str, Any] = field(default_factory=dict)
    """Other fields of `RunConfig`; of `RunnerConfig` for a process of a job, which has a `server_type`."""

    def run(self, max_steps: int | None = None) -> int:
        """Train until SIGTERM, or to `max_steps`, and leave a snapshot.

        Return SCALED if the job is to go on otherwise, and LOST if this process of it may be started again.
        """
        try:
            return self._run(max_steps)
        except Exception as error:
            if "server_type" in self.config and import_module("monolith.train.job.retries").is_loss(error):
                _log.error("%s", error)
                return LOST
            raise

    def _run(self, max_steps: int | None) -> int:
        # Batches are small: a second thread would mostly wait, and servers want the other cores.
        import_module("torch").set_num_threads(1)
        online = import_module("monolith.train.online")
        kind = "RunnerConfig" if "server_type" in self.config else "RunConfig"
        deadline = time.monotonic() + _LOG_WAIT_SECONDS
        while not (Path(self.log_path) / SCHEMA_FILE).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        result = online.run_online(
            load_class(self.model),
            log_path=self.log_path,
            model_dir=self.model_dir,
            export_base=self.export_base,
            name=self.name,
            sync_targets=self.sync_targets,
            batch_size=self.batch_size,
            max_steps=max_steps,
            config=getattr(import_module("monolith.train.config"), kind)(**self.config),
        )
        return SCALED if result.scale_to is not None else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerJobRole:
    """Does what a `TrainerRole` does by several processes: parameter servers, a chief and workers.

    One that dies is started again; the job fails, and this process with it, after a few times.
    """

    trainer: dict[str, Any]
    """The fields of the `TrainerRole`."""

    num_ps: int
    num_workers: int
    folder: str
    """For the configurations and logs of the processes."""

    def run(self) -> None:
        """Train until SIGTERM: then workers finish their batch, the chief saves, and all end."""
        part = JOB_STOP_SECONDS / 6
        config = SupervisorConfig(stop_seconds=3 * part, grace_seconds=part, kill_seconds=part)
        model, model_dir = self.trainer["model"], self.trainer["model_dir"]
        jobs = [Job(model=model, folder=model_dir, num_ps=self.num_ps, num_workers=self.num_workers)]

        def scaled() -> list[JobRole]:
            jobs.append(jobs[-1].scaled())
            return self._roles(jobs[-1])

        supervisor = Supervisor(self._roles(jobs[0]), self.folder, config, say=_log.info, scaled=scaled)
        if supervisor.run():
            raise ProcessEndedError(supervisor.failure)

    def _roles(self, job: Job) -> list[JobRole]:
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        roles = []
        for one in job.roles():
            place = {"server_type": one.server_type, "index": one.index}
            size = {"num_ps": job.num_ps, "num_workers": job.num_workers}
            fields = {**self.trainer, "config": {**self.trainer.get("config", {}), **size, **place}}
            path = folder / f"{one.name.replace(' ', '-')}.json"
            path.write_text(json.dumps(fields, indent=1))
            command = role_command("trainer", path)
            roles.append(JobRole(name=one.name, command=command, is_leader=one.is_leader, is_server=one.is_server))
        return roles


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRole:
    """Answers predictions, and follows a trainer."""

    export_base: str
    port: int
    sync_address: str
    ready_path: str
    host: str = "127.0.0.1"

    def run(self) -> None:
        """Wait for the first version, then serve until SIGTERM."""
        server = import_module("monolith.serving.server")
        config = server.ServerConfig(
            export_base=self.export_base,
            host=self.host,
            port=self.port,
            sync_address=self.sync_address,
            ready_file=self.ready_path,
            wait=True,
        )
        server.serve(config)


ROLES: Mapping[str, type[Role]] = {
    "generator": GeneratorRole,
    "trainer": TrainerRole,
    "job": TrainerJobRole,
    "server": ServerRole,
}


def role_from_json(name: str, text: str) -> Role:
    """Return the role of this name with the fields that a JSON object gives it."""
    if name not in ROLES:
        raise ValueError(f"there is no role {name!r}; the roles are {', '.join(ROLES)}")
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError(f"the configuration of a {name} is a JSON object, got {text[:80]!r}")
    try:
        return ROLES[name](**fields)
    except TypeError as error:
        raise ValueError(f"the configuration of a {name} does not fit: {error}") from error
