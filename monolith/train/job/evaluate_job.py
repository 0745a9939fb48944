"""evaluate_job: a snapshot on parameter servers, looked at by many workers."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from monolith.checkpoint.format.manifest import read_manifest
from monolith.checkpoint.shards import load_into_shards
from monolith.cluster.discovery import ServiceDiscovery
from monolith.data import Source
from monolith.data.parts import PartSource
from monolith.embedding import MultiTable
from monolith.errors import MonolithError
from monolith.hooks import Hook
from monolith.model import LookupPlan, MonolithModel
from monolith.parallel import RemoteShard, RetryConfig
from monolith.parallel.coordination import Coordinator, JobOverError, Opening, WorkerLink
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import job_config, restore_config
from monolith.train.job.late_stop import LateStop
from monolith.train.job.parameter_server import run_ps
from monolith.train.job.place import PS, WORKER, JobPlace, common_settings, coordinator_at, place_of
from monolith.train.job.served_state import Servers
from monolith.train.roles.server_choice import ServerChoice
from monolith.train.trained_model import TrainedModel

GENERATION = 1
"""Parameter servers of an evaluation are new, and nobody fences them."""

APART = "evaluation"
"""A job may train in the same folder, with the same settings: its processes are not to be met."""

FAILED = "failed: "
"""A worker whose part ended like this has no metrics; the rest of the words say why."""

FAILED_SECONDS = 2.0
"""How long a worker that failed waits for the end of the evaluation; the chief may still be at its own part."""

_MAX_WHY = 1000

_LEAVE_SECONDS = 2.0
"""How long an interrupted chief waits for workers to leave: one that is at work does not hear of it."""

_HASTE = RetryConfig(deadline_seconds=5.0, attempt_seconds=5.0)
"""How long an interrupted chief asks servers to end; what stops it soon kills it."""

_log = logging.getLogger(__name__)


class WorkerFailedError(MonolithError):
    """A worker failed at its part of an evaluation; the message says which one, and why."""


def evaluate_job(
    model: MonolithModel,
    config: RunnerConfig,
    find: Callable[[], Path],
    source: Source,
    *,
    discovery: ServiceDiscovery | None = None,
    steps: int | None = None,
    hooks: Sequence[Hook] = (),
    group_by: str | None = None,
) -> dict[str, float]:
    """Be a process that evaluates the snapshot that `find` returns; return the metrics of this process's part.

    A parameter server returns nothing, and a dispatcher or data worker nothing at once: workers read their data
    themselves. The chief asks again once all servers are there: a job that trains meanwhile may have replaced the
    first answer. However it ends, the servers end too, also at SIGTERM, which is a KeyboardInterrupt here.

    Raises:
        WorkerFailedError: in the chief, once its own part is done.
    """
    job = job_config(config)
    if job.server_type not in (PS, WORKER):
        return {}
    find()  # without a snapshot, nobody waits for others
    with place_of(config, discovery, apart=APART) as place:
        if job.server_type == PS:
            run_ps(place, job)
            return {}
        job.make_room_for_files()
        part = PartSource(source, config.num_workers, config.index)
        evaluate = _evaluate_as_chief if config.index == 0 else _evaluate_as_worker
        return evaluate(model, config, find, place, part, steps=steps, hooks=hooks, group_by=group_by)


def _evaluate_as_chief(
    model: MonolithModel,
    config: RunnerConfig,
    find: Callable[[], Path],
    place: JobPlace,
    source: Source,
    **how: Any,
) -> dict[str, float]:
    retry, options = job_config(config).call_retry, restore_config(config)
    choice = ServerChoice.of(config, place, retry, apart=APART)
    with coordinator_at(place, config.num_workers) as coordinator, _ending_all(choice, coordinator):
        addresses = choice.servers()
        path = find()
        plan = LookupPlan.from_json(read_manifest(path).plan)
        with ExitStack() as connections:
            shards = [
                connections.enter_context(RemoteShard(address, secret=place.secret, tls=place.tls, retry=retry))
                for address in addresses
            ]
            for index, shard in enumerate(shards):
                shard.init(plan, index, len(shards), generation=GENERATION, anew=True)
            load_into_shards(path, shards, plan=plan, drop_not_finite=options.drop_not_finite)
            for shard in shards:
                shard.mark_initialized()
        coordinator.open(
            Opening(
                generation=GENERATION,
                servers=addresses,
                plan_hash=plan.hash,
                settings=evaluation_settings(config),
                positions={index: {"path": str(path)} for index in range(1, config.num_workers)},
            )
        )
        found = _evaluated(model, config, path, place, addresses, source, **how)
        seconds = float(config.chief_timeout_secs)
        check = partial(_check_workers, coordinator)
        if late := coordinator.wait_for_workers(timeout_seconds=seconds, check=check):
            _log.warning("workers %s did not finish within %g s; the servers end now", late, seconds)
        check()  # nobody is waited for when the last one fails
        return found


def _check_workers(coordinator: Coordinator) -> None:
    failed = {index: how for index, how in coordinator.endings.items() if how.startswith(FAILED)}
    if failed:
        words = "; ".join(f"worker {index} {how}" for index, how in sorted(failed.items()))
        raise WorkerFailedError(f"the evaluation lacks a part, evaluate again: {words}")


@contextmanager
def _ending_all(choice: ServerChoice, coordinator: Coordinator) -> Iterator[None]:
    """Let workers and servers end with the block, and after an error too: nobody else ends them.

    SIGTERM and Ctrl-C are a KeyboardInterrupt, after which nobody is waited for long. One more does not cut that short.
    """
    hurries = threading.Event()
    with LateStop(hurries.is_set):
        try:
            try:
                yield
            except KeyboardInterrupt:
                hurries.set()
                raise
            finally:
                if not hurries.is_set():
                    coordinator.end()
                    choice.shut_down_all_but([])
        except KeyboardInterrupt:
            hurries.set()  # the signal may have come during the ending
            coordinator.end(timeout_seconds=_LEAVE_SECONDS)
            replace(choice, retry=_HASTE).shut_down_all_but([], waits=False)
            raise


def _evaluate_as_worker(
    model: MonolithModel,
    config: RunnerConfig,
    find: Callable[[], Path],
    place: JobPlace,
    source: Source,
    **how: Any,
) -> dict[str, float]:
    link = WorkerLink(place.chief(), config.index, secret=place.secret, tls=place.tls)
    with LateStop(lambda: False), link:
        plan = LookupPlan.from_json(read_manifest(find()).plan)
        try:
            joined = link.join(
                plan_hash=plan.hash, settings=evaluation_settings(config), timeout_seconds=place.wait_seconds
            )
        except JobOverError:
            raise JobOverError("the chief ended the evaluation before this worker began; its log says why") from None
        assert joined.position is not None
        try:
            found = _evaluated(model, config, Path(joined.position["path"]), place, joined.servers, source, **how)
        except BaseException as error:  # SIGTERM and Ctrl-C too
            why = f"{type(error).__name__}: {error}"[:_MAX_WHY]
            with suppress(MonolithError, OSError):  # `close` sends what is not sent by then
                link.finish(f"{FAILED}{why}", timeout_seconds=FAILED_SECONDS)
            raise
        link.finish("evaluated")
        return found


def evaluation_settings(config: RunnerConfig) -> dict[str, Any]:
    """Return what all processes must agree on: the chief of a job that trains takes no process that evaluates."""
    return {**common_settings(config), "evaluates": True}


def _evaluated(
    model: MonolithModel,
    config: RunnerConfig,
    path: Path,
    place: JobPlace,
    addresses: Sequence[str],
    source: Source,
    **how: Any,
) -> dict[str, float]:
    plan = LookupPlan.from_json(read_manifest(path).plan)
    job = job_config(config)
    servers = Servers(
        addresses=addresses,
        generation=GENERATION,
        secret=place.secret,
        tls=place.tls,
        retry=job.call_retry,
        half=job.half_precision_rows,
    )
    with servers.tables(plan) as tables:
        trained = TrainedModel(model, path, restore_config(config), tables=cast(MultiTable, tables))
        return trained.evaluate(source, **how)
