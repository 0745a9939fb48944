"""evaluate_job: a snapshot on parameter servers, looked at by many workers."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from monolith.checkpoint.format.manifest import read_manifest
from monolith.checkpoint.shards import load_into_shards
from monolith.cluster.discovery import ServiceDiscovery
from monolith.data import Source
from monolith.data.parts import PartSource
from monolith.embedding import MultiTable
from monolith.hooks import Hook
from monolith.model import LookupPlan, MonolithModel
from monolith.parallel import RemoteShard
from monolith.parallel.coordination import Coordinator, JobOverError, Opening, WorkerLink
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import job_config, restore_config
from monolith.train.job.parameter_server import run_ps
from monolith.train.job.place import PS, WORKER, JobPlace, common_settings, coordinator_at, place_of
from monolith.train.job.served_state import Servers
from monolith.train.roles.server_choice import ServerChoice
from monolith.train.trained_model import TrainedModel

GENERATION = 1
"""Parameter servers of an evaluation are new, and nobody fences them."""

APART = "evaluation"
"""A job may train in the same folder, with the same settings: its processes are not to be met."""

_log = logging.getLogger(__name__)


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
    first answer. However it ends, the servers end too.
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
        if late := coordinator.wait_for_workers(timeout_seconds=seconds):
            _log.warning("workers %s did not finish within %g s; the servers end now", late, seconds)
        return found


@contextmanager
def _ending_all(choice: ServerChoice, coordinator: Coordinator) -> Iterator[None]:
    """Let workers and servers end with the block, and after an error too: nobody else ends them."""
    try:
        yield
    finally:
        coordinator.end()
        choice.shut_down_all_but([])


def _evaluate_as_worker(
    model: MonolithModel,
    config: RunnerConfig,
    find: Callable[[], Path],
    place: JobPlace,
    source: Source,
    **how: Any,
) -> dict[str, float]:
    with WorkerLink(place.chief(), config.index, secret=place.secret, tls=place.tls) as link:
        plan = LookupPlan.from_json(read_manifest(find()).plan)
        try:
            joined = link.join(
                plan_hash=plan.hash, settings=evaluation_settings(config), timeout_seconds=place.wait_seconds
            )
        except JobOverError:
            raise JobOverError("the chief ended the evaluation before this worker began; its log says why") from None
        assert joined.position is not None
        found = _evaluated(model, config, Path(joined.position["path"]), place, joined.servers, source, **how)
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
