"""RayEngine: the processes of a job on a Ray cluster, one actor for each."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from monolith.launch.engines.job import PS, Job, JobProcess, Resources
from monolith.launch.engines.ray_role import RayRole
from monolith.launch.supervisor import SCALED, how_it_ended

try:
    import ray
    from ray.util import list_named_actors
    from ray.util.placement_group import get_placement_group, placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
except ModuleNotFoundError as error:
    raise ImportError(f"--engine ray needs the package {error.name!r}: pip install 'monolith-recsys[ray]'") from error

NAMESPACE = "monolith"
"""Of the actors' names in Ray."""

_POLL_SECONDS = 0.2
_END_SECONDS = 10.0
_SERVER_PAUSE_SECONDS = 3.0
_GB = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RayConfig:
    """Which cluster, and what a job asks of it."""

    name: str
    """Of the job: its actors are NAME/ps 0, NAME/chief, NAME/worker 1, ..."""

    address: str = "auto"
    """As `ray.init` takes it; "auto" is the cluster that runs on this machine."""

    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    """What Ray prepares on every node, such as {"working_dir": "."}."""

    ps: Resources = field(default_factory=Resources)
    worker: Resources = field(default_factory=Resources)

    max_restarts: int = 3
    """How often each actor is started again, with its process or after its node was lost."""

    wait_seconds: float = 600.0
    """How long the job waits for its places in the cluster."""

    stop_seconds: float = 60.0
    """How long an orderly end may take."""


class RayEngine:
    """Runs jobs on a Ray cluster until they are done, fail, or are stopped by SIGTERM or Ctrl-C.

    All nodes must see the folder of the job. Lines of the processes are in Ray's dashboard, and come here too.
    """

    def __init__(self, config: RayConfig, say: Callable[[str], None]) -> None:
        """Take which cluster, and who prints lines."""
        self._config, self._say = config, say
        self._stops = 0
        self._is_scaled = False

    def run(self, job: Job) -> int:
        """Run the job, in each shape that `monolith scale` gives it; return 0, or 1 if it failed."""
        job = replace(job, folder=os.path.abspath(job.folder))
        with self._connection(), self._signals():
            self._check_free()
            failure = self._run_shape(job)
            while self._is_scaled and not self._stops:
                job = job.scaled()
                self._wait_until_free()
                names = ", ".join(role.name for role in job.roles())
                self._say(f"the job goes on in its new shape: {names}")
                failure = self._run_shape(job)
        if failure:
            self._say(f"the job failed: {failure}")
        return 1 if failure else 0

    def _run_shape(self, job: Job) -> str:
        """Run the processes until they end; return why the job failed, or nothing."""
        self._is_scaled = False
        with self._group(job) as group:
            actors = self._actors(_reachable(job), group)
            try:
                return self._watch(actors)
            finally:
                for actor in actors.values():
                    ray.kill(actor)

    def _names_taken(self) -> list[str]:
        """Return the actors of a job of this name."""
        return sorted(name for name in list_named_actors() if name.startswith(f"{self._config.name}/"))

    def _check_free(self) -> None:
        taken = self._names_taken()
        if taken:
            raise ValueError(_taken(taken[0]))

    def _wait_until_free(self) -> None:
        """Wait until Ray has let go of the actors and places of the last shape."""
        end = time.monotonic() + self._config.stop_seconds
        while (taken := self._names_taken()) or self._has_group():
            if time.monotonic() > end:
                raise TimeoutError(
                    f"Ray has not ended {', '.join(taken) or 'the placement group of the job'} in "
                    f"{self._config.stop_seconds:g} s; when it has, run the command again with the new numbers"
                )
            time.sleep(_POLL_SECONDS)

    def _has_group(self) -> bool:
        try:
            get_placement_group(self._config.name)
        except ValueError:
            return False
        return True

    @contextmanager
    def _connection(self) -> Iterator[None]:
        config = self._config
        try:
            ray.init(
                address=config.address, namespace=NAMESPACE, runtime_env=dict(config.runtime_env), log_to_driver=True
            )
        except ConnectionError as error:
            raise ConnectionError(
                f"no Ray cluster answers at {config.address!r} ({error}); start one with `ray start --head`, or say "
                "where it is with --ray-address"
            ) from error
        try:
            yield
        finally:
            ray.shutdown()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Count requests to stop; after Ray has set its own handlers."""

        def stop(*_: object) -> None:
            self._stops += 1

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def _group(self, job: Job) -> Iterator[Any]:
        """Get a place for every process, on as many nodes as there are; all or none."""
        bundles = [_bundle(self._resources(role)) for role in job.roles()]
        try:
            group = placement_group(bundles, strategy="SPREAD", name=self._config.name)
        except ray.exceptions.RaySystemError as error:
            raise ValueError(_taken(self._config.name)) from error
        try:
            end, next_word = time.monotonic() + self._config.wait_seconds, time.monotonic() + 5.0
            while not group.wait(_POLL_SECONDS):
                has = _summed([ray.cluster_resources()])
                words = f"{_summed(bundles)} for {len(bundles)} processes; the cluster has {has}"
                if self._stops or time.monotonic() > end:
                    raise TimeoutError(f"waited {self._config.wait_seconds:g} s for {words}")
                if time.monotonic() > next_word:
                    self._say(f"waiting for {words}")
                    next_word = time.monotonic() + 60.0
            yield group
        finally:
            remove_placement_group(group)

    def _actors(self, job: Job, group: Any) -> dict[JobProcess, Any]:
        remote = ray.remote(RayRole)
        folder = None if "working_dir" in self._config.runtime_env else os.getcwd()
        actors = {}
        for place, role in enumerate(job.roles()):
            bundle = _bundle(self._resources(role))
            name = f"{self._config.name}/{role.name}"
            try:
                actors[role] = remote.options(
                    name=name,
                    num_cpus=bundle["CPU"],
                    memory=bundle.get("memory"),
                    max_restarts=self._config.max_restarts,
                    max_task_retries=self._config.max_restarts,
                    max_concurrency=2,  # it runs, and can be stopped meanwhile
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=place),
                ).remote(role.name, role.arguments, folder)
            except ValueError as error:
                raise ValueError(_taken(name)) from error
        return actors

    def _resources(self, role: JobProcess) -> Resources:
        return self._config.ps if role.server_type == PS else self._config.worker

    def _watch(self, actors: Mapping[JobProcess, Any]) -> str:
        """Wait for the end of the job; return why it failed, or nothing."""
        running = {actor.run.remote(): role for role, actor in actors.items()}
        leader = next(role for role in actors if role.is_leader)
        end = 0.0
        while any(not role.is_server for role in running.values()):
            if end == 0.0 and (self._stops or leader not in running.values()):
                end = time.monotonic() + self._config.stop_seconds
                if self._stops:
                    self._say("stopping: workers finish their step, the chief saves; Ctrl-C again ends all at once")
                    actors[leader].stop.remote()
            if self._is_scaled and time.monotonic() > end:
                break  # all is saved: processes that have not ended are killed
            if self._stops > 1 or (end and time.monotonic() > end):
                return f"{', '.join(role.name for role in running.values())} did not end in time"
            for call in ray.wait(list(running), timeout=_POLL_SECONDS)[0]:
                role = running.pop(call)
                status = self._status(call)
                if status and not self._is_scaled:
                    return f"{role.name} {status}"
                if role.is_server and leader in running.values():
                    # Somebody ended it, or the chief did and ends too.
                    running[actors[role].run.remote(_SERVER_PAUSE_SECONDS)] = role
        if running:  # servers, which the chief has asked to end
            ray.wait(list(running), num_returns=len(running), timeout=_END_SECONDS)
        return ""

    def _status(self, call: Any) -> str:
        """Return how a process failed for good, in words; nothing if it ended well."""
        try:
            status = ray.get(call)
            if status == SCALED:  # of the chief, which has told the others to end
                self._is_scaled = True
                return ""
        except ray.exceptions.RayActorError:
            return f"failed or was lost more than {self._config.max_restarts} times; its log is in Ray's dashboard"
        return how_it_ended(status) if status else ""


def _taken(name: str) -> str:
    return f"{name!r} runs in this Ray cluster already; choose another --job-name"


def _reachable(job: Job) -> Job:
    """Return the job with processes that listen to other machines, if the cluster has several."""
    machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    if len(machines) < 2 or any(flag.startswith("--listen=") for flag in job.flags):
        return job
    return replace(job, flags=[*job.flags, "--listen=0.0.0.0"])


def _bundle(resources: Resources) -> dict[str, float]:
    memory = {"memory": resources.memory_gb * _GB} if resources.memory_gb else {}
    return {"CPU": resources.cpus, **memory}


def _summed(bundles: list[dict[str, float]]) -> str:
    cpus, memory = (sum(one.get(name, 0.0) for one in bundles) for name in ("CPU", "memory"))
    return f"{cpus:g} CPUs" + (f" and {memory / _GB:.1f} GB" if memory else "")
