"""run_ranks: a synchronous run; every rank of the job calls this, and all take each step together."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from monolith.cluster.discovery import ServiceDiscovery
from monolith.cluster.host_addresses import loopback_ip
from monolith.cluster.platform.local_host import get_local_host
from monolith.data import Source
from monolith.data.parts import PartSource
from monolith.hooks import Hook
from monolith.model import MonolithModel
from monolith.parallel.ranks import Exchange, RankGroup, RankPlace
from monolith.train.config import CpuTrainingConfig, RunnerConfig
from monolith.train.config.run_settings import RunSettings, tls_config
from monolith.train.hooks.live_view import LiveView
from monolith.train.hooks.standard import standard_hooks
from monolith.train.job.parameter_server import run_ps
from monolith.train.job.place import PS, JobPlace, place_of
from monolith.train.job.run_job import health_hooks, not_begun
from monolith.train.job.scale.shape import CLUSTER_FOLDER
from monolith.train.loop import RunResult, Trainer
from monolith.train.ranks.first_rank import FirstRank
from monolith.train.ranks.other_rank import OtherRank
from monolith.train.ranks.pipeline import Overlap
from monolith.train.ranks.rank_job import RankJob, RankServers, check_same
from monolith.train.run import run, training_source
from monolith.train.state import StateConfig
from monolith.wire import Address, SharedSecret

SILENT_SECONDS = 1800.0
"""How long a rank may be silent, if operation_timeout_in_ms does not say it: it may wait for events that long."""

_OWN = ("index", "from_command_line", "derived", "metrics_port", "status_path", "tensorboard_log_path", "device_fn")
"""Settings that ranks need not have in common."""


def init_sync_train_and_update_conf(conf: CpuTrainingConfig) -> None:
    """Let a configuration say which rank this process is, of how many: `index`, `num_workers`, and no servers.

    With `enable_partial_sync_training` there are servers, which hold the rows; the configuration of one stays as it is.

    torchrun, mpirun and `monolith launch --sync` tell a process that; without them it is the only rank.
    """
    if conf.server_type == PS:
        return
    place = RankPlace.of_this_process()
    if conf.num_workers not in (1, place.num_ranks):
        raise ValueError(
            f"num_workers={conf.num_workers}, but {place.num_ranks} ranks were started; start that many, such as with "
            f"`monolith launch --sync --num-workers {conf.num_workers}`, or leave num_workers out"
        )
    conf.index, conf.num_workers = place.rank, place.num_ranks
    if not conf.enable_partial_sync_training:
        conf.num_ps = 0


def run_ranks(
    model: MonolithModel,
    config: RunnerConfig,
    *,
    discovery: ServiceDiscovery | None = None,
    hooks: Sequence[Hook] = (),
    **how: Any,
) -> RunResult:
    """Train as `run` does, in step with all other ranks, and return how it ended.

    Every rank reads its part of the data. The rows are spread over the ranks, or are on parameter servers, as which
    some processes call this. The dense weights are the same on all ranks. Rank 0 writes one checkpoint for all, which
    any number of ranks, a job with parameter servers or one process restores. Ranks find the servers through
    `discovery`, by default files in `<model_dir>/cluster`.
    """
    settings = RunSettings.of(config, model)
    with ExitStack() as cleanup:
        servers = cleanup.enter_context(place_of(config, discovery)) if settings.job.keeps_rows_on_ps else None
        if servers is not None and config.server_type == PS:
            run_ps(servers, settings.job)
            return not_begun("rank 0 ended the job")
        settings.job.make_room_for_files()
        return _be_rank(model, config, settings, servers, hooks, how)


def _be_rank(
    model: MonolithModel,
    config: RunnerConfig,
    settings: RunSettings,
    servers: JobPlace | None,
    hooks: Sequence[Hook],
    how: Mapping[str, Any],
) -> RunResult:
    place = RankPlace.of_this_process()
    folder = Path(config.model_dir) / CLUSTER_FOLDER
    milliseconds = settings.job.call_timeout_ms
    seconds = milliseconds / 1000 if milliseconds > 0 else SILENT_SECONDS
    settings.process.apply()
    overlap = Overlap(
        num_rows_ahead=settings.job.ahead or 0,
        ids=settings.job.exchanges_ids_ahead,
        gradients=settings.job.exchanges_gradients_behind,
        late_steps=settings.job.steps_rows_late,
    )
    retry = settings.job.call_retry
    if servers is not None:
        # A rank that lost a server says so before the others give the rank up.
        longest = min(retry.deadline_seconds, seconds / 2)
        retry = replace(retry, deadline_seconds=longest, attempt_seconds=min(retry.attempt_seconds, longest))
    group = RankGroup(place, folder, timeout_seconds=seconds)
    with group as exchange:
        # Before anything that some settings do and others do not.
        check_same(exchange, _common(config))
        job = RankJob(
            secret=SharedSecret.made_in_folder(folder),
            tls=tls_config(config),
            insecure=config.insecure,
            listen_at=str(Address(loopback_ip(), 0)) if place.is_one_machine else f"{get_local_host()}:0",
            retry=retry,
            servers=None if servers is None else _servers_of(servers, config),
            half=settings.job.half_precision_rows,
            overlap=overlap,
            background=group.another_exchange() if overlap else None,
            averages_rows=settings.job.row_gradients == "mean",
        )
        source = PartSource(training_source(model, settings.input), place.num_ranks, place.rank)
        if place.rank == 0:
            return _run_first(model, config, source, exchange, job, servers, hooks=hooks, **how)
        return _run_other(model, settings, source, exchange, job, hooks)


def _run_first(
    model: MonolithModel,
    config: RunnerConfig,
    source: Source,
    exchange: Exchange,
    job: RankJob,
    servers: JobPlace | None,
    *,
    hooks: Sequence[Hook],
    **how: Any,
) -> RunResult:
    states: list[FirstRank] = []
    settings = RunSettings.of(config, model)
    live = settings.live
    if servers is not None:
        hooks = [*hooks, *health_hooks(settings, servers, lambda: _addresses(states[-1]), figures=True)]

    def make_state(model: MonolithModel, source: Source, state: StateConfig) -> FirstRank:
        states.append(FirstRank(model, source, state, exchange=exchange, job=job))
        if live is not None:
            states[-1].tell_every(live.sync_seconds)
        return states[-1]

    try:
        result = run(model, config, source=source, make_state=make_state, hooks=hooks, **how)
        states[-1].dismiss()
        states[-1].end_servers()
        return result
    finally:
        for state in states:
            state.close()


def _addresses(state: FirstRank) -> list[str]:
    return [str(shard.address) for shard in state.shards]


def _run_other(
    model: MonolithModel,
    settings: RunSettings,
    source: Source,
    exchange: Exchange,
    job: RankJob,
    hooks: Sequence[Hook],
) -> RunResult:
    # Rank 0 writes summaries and answers questions for all: ranks of one machine cannot all have its port.
    watching = [*standard_hooks(replace(settings.watch, summary_steps=0, controller=False, metrics_port=0)), *hooks]
    watching.append(LiveView(every_steps=settings.watch.log_steps, folder=settings.saving.folder))
    watching += model.training_hooks
    for hook in watching:
        hook.begin()
    with closing(OtherRank(model, source, settings.state, exchange=exchange, job=job)) as state:
        state.join()
        trainer = Trainer(state, settings.loop, settings.saving, hooks=watching, saves=False)
        state.stop_requested = lambda: trainer.context.stop_requested
        result = trainer.run(state.last_step)
        exchange.barrier()  # see `FirstRank.end_servers`
        return result


def _servers_of(place: JobPlace, config: RunnerConfig) -> RankServers:
    return RankServers(find=lambda: place.servers(config.num_ps), folder=Path(config.model_dir))


def _common(config: RunnerConfig) -> dict[str, Any]:
    found = {one.name: getattr(config, one.name) for one in fields(config) if one.name not in _OWN}
    return {**found, "model_dir": str(Path(config.model_dir).absolute())}
