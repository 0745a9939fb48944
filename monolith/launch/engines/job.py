"""Job: what every engine runs; each of its processes is a `monolith train` with its own role."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from monolith.train.job.scale.shape import CLUSTER_FOLDER, ScaleOutcome

PS, WORKER = "ps", "worker"
DISPATCHER, DSWORKER = "dispatcher", "dsworker"

_STEP_FLAGS = ("--steps=", "--max-steps=")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobProcess:
    """One process of a job.

    >>> JobProcess(server_type="worker", index=0, arguments=()).name
    'chief'
    """

    server_type: str
    """ps, worker, dispatcher or dsworker."""

    index: int
    """Which of its kind."""

    arguments: tuple[str, ...]
    """What follows `monolith` on its command line."""

    @property
    def name(self) -> str:
        """For people and for log files."""
        if self.server_type == DISPATCHER:
            return DISPATCHER
        return "chief" if self.is_leader else f"{self.server_type} {self.index}"

    @property
    def is_leader(self) -> bool:
        """It ends the others in order when it is asked to end."""
        return self.server_type == WORKER and self.index == 0

    @property
    def is_server(self) -> bool:
        """It has no end of its own: the job is done when all others are."""
        return self.server_type != WORKER


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Processes that train one model together."""

    model: str
    """Where its class is: "module:Class"."""

    folder: str
    """What all processes have in common: snapshots are there, and by default the addresses of the processes."""

    num_ps: int
    num_workers: int

    num_spares: int = 0
    """Parameter servers more than `num_ps`; the flags say what they are for."""

    num_dsworkers: int = 0
    """Processes that read the data for the workers; with them there is a dispatcher."""

    flags: Sequence[str] = ()
    """Settings of all processes, as flags of `monolith train`."""

    def __post_init__(self) -> None:
        """Reject what is no job."""
        if not self.folder:
            raise ValueError("monolith launch needs --model-dir, the folder that its processes have in common")
        if self.num_ps < 1:
            raise ValueError("a job of several processes has --num-ps of at least 1; `monolith train` is one process")
        if self.num_workers < 1:
            raise ValueError(f"a job has --num-workers of at least 1, got {self.num_workers}")
        if self.num_dsworkers < 0:
            raise ValueError(f"--num-dsworkers must not be negative, got {self.num_dsworkers}")

    def scaled(self) -> "Job":
        """Return the job in the shape that `monolith scale` asked for, after its chief has stopped for it."""
        outcome = ScaleOutcome.read(Path(self.folder) / CLUSTER_FOLDER)
        if outcome is None or outcome.what != "scaled":
            raise ValueError(f"{self.folder}: the chief ended as if `monolith scale` had asked for it, and nothing has")
        flags = [flag for flag in self.flags if outcome.last_step is None or not flag.startswith(_STEP_FLAGS)]
        if outcome.last_step is not None:  # `steps` counts from where the job began
            flags.append(f"--max-steps={outcome.last_step}")
        shape = outcome.shape
        return replace(self, num_ps=shape.num_ps, num_workers=shape.num_workers, flags=flags)

    @property
    def num_servers(self) -> int:
        """Processes that are parameter servers."""
        return self.num_ps + self.num_spares

    def arguments(self, server_type: str, index: int | str) -> tuple[str, ...]:
        """Return what follows `monolith` on the command line of a process."""
        common = [f"--model-dir={self.folder}", f"--num-ps={self.num_ps}", f"--num-workers={self.num_workers}"]
        if self.num_dsworkers:
            common.append("--use-dataservice=true")
        return "train", self.model, *common, *self.flags, f"--server-type={server_type}", f"--index={index}"

    def roles(self) -> list[JobProcess]:
        """Return all processes, servers first."""
        places = [(PS, index) for index in range(self.num_servers)]
        if self.num_dsworkers:
            places += [(DISPATCHER, 0), *((DSWORKER, index) for index in range(self.num_dsworkers))]
        places += [(WORKER, index) for index in range(self.num_workers)]
        return [
            JobProcess(server_type=kind, index=index, arguments=self.arguments(kind, index)) for kind, index in places
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """What a process asks of the cluster that runs it."""

    cpus: float = 1.0

    memory_gb: float = 0.0
    """0 asks for none in particular."""

    def __post_init__(self) -> None:
        """Reject what no machine has."""
        if self.cpus <= 0 or self.memory_gb < 0:
            raise ValueError(
                f"a process needs some CPU and no negative memory, got {self.cpus:g} and {self.memory_gb:g} GB"
            )


class Engine(Protocol):
    """Something that runs jobs."""

    def run(self, job: Job) -> int:
        """Run a job to its end, or print what runs it elsewhere; return the status of the command."""
        ...
