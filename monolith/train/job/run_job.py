"""run_job: a run of many processes; each of them calls this with its own role."""

import math
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from monolith.cluster.discovery import ServiceDiscovery
from monolith.cluster.platform.app_master import app_master_learns_the_end
from monolith.data import Source
from monolith.data.parts import PartSource
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model import Mode, MonolithModel
from monolith.parallel.coordination import Coordinator, JobOverError, WorkerLink
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import RunSettings, input_config, job_config
from monolith.train.config.task_settings import task_parameter
from monolith.train.health.alert_hook import AlertHook
from monolith.train.health.server_health import ServerHealthHook
from monolith.train.hooks.endpoint import ReadFiguresHook
from monolith.train.hooks.live_view import LiveView
from monolith.train.hooks.standard import standard_hooks
from monolith.train.job.chief_state import ChiefConfig, ChiefState
from monolith.train.job.data_roles.dispatcher_role import run_dispatcher
from monolith.train.job.data_roles.dsworker_role import (
    end_data_service,
    extra_dsworkers,
    run_dsworker,
    service_input,
)
from monolith.train.job.late_stop import LateStop
from monolith.train.job.parameter_server import run_ps
from monolith.train.job.place import DISPATCHER, PS, WORKER, JobPlace, common_settings, coordinator_at, place_of
from monolith.train.job.retries import Retries
from monolith.train.job.scale.scaling import Scaling
from monolith.train.job.scale.shape import CLUSTER_FOLDER, JobShape
from monolith.train.job.status import ask_servers, job_figures, server_figures, with_servers
from monolith.train.job.worker_state import WorkerState
from monolith.train.loop import RunResult, Trainer
from monolith.train.made_model import make_source as make_model_source
from monolith.train.roles.server_choice import ServerChoice
from monolith.train.run import run, training_source
from monolith.train.state import StateConfig

PAUSE_SECONDS = 30.0
"""How long a save waits for workers, if the task's train.max_pending_seconds_for_barrier does not say it."""


_STATUS_SECONDS = 2.0
"""A parameter server that does not say how it is by then counts as lost, for Prometheus."""


_HEALTH_SECONDS = 10.0
"""The same for people: each of them reads the warning, so it comes later."""


def run_job(
    model: MonolithModel | None,
    config: RunnerConfig,
    *,
    discovery: ServiceDiscovery | None = None,
    make_source: Callable[[], Source] | None = None,
    steps: int | None = None,
    max_steps: int | None = None,
    hooks: Sequence[Hook] = (),
    **listeners: Any,
) -> RunResult:
    """Be the process of a job that `server_type` and `index` name, and return how it ended.

    Processes find each other through `discovery`, by default files in `<model_dir>/cluster`.
    `make_source` returns the data of all workers, each of which takes its part; by default, see `training_source`.
    """
    with place_of(config, discovery) as place:
        if config.server_type != "worker":
            _be_no_worker(model, config, place, make_source)
            return not_begun("the chief ended the job")
        assert model is not None
        reads = service_input(place, config)
        read = make_source or partial(training_source, model, reads)
        with extra_dsworkers(place, config, reads, model):
            if config.index != 0:
                return _run_worker(model, config, place, read, hooks)
            with app_master_learns_the_end() as is_not_done:
                result = _run_chief(
                    model, config, place, read, steps=steps, max_steps=max_steps, hooks=hooks, **listeners
                )
                if result.scale_to is not None:
                    is_not_done()
        end_data_service(place, reads)
        return result


def _be_no_worker(
    model: MonolithModel | None, config: RunnerConfig, place: JobPlace, read: Callable[[], Source] | None
) -> None:
    """Hold rows, or read data, until the chief ends the job."""
    if config.server_type == PS:
        run_ps(place, job_config(config))
        return
    job_config(config).make_room_for_files()
    if config.server_type == DISPATCHER:
        run_dispatcher(place, config)
    else:
        assert model is not None
        run_dsworker(place, config.index, read or partial(make_model_source, model, Mode.TRAIN, input_config(config)))


def _run_chief(
    model: MonolithModel,
    config: RunnerConfig,
    place: JobPlace,
    read: Callable[[], Source],
    *,
    hooks: Sequence[Hook],
    **how: Any,
) -> RunResult:
    settings = RunSettings.of(config, model)
    settings.job.make_room_for_files()
    job = ChiefConfig(
        folder=Path(config.model_dir),
        num_workers=config.num_workers,
        settings=common_settings(config),
        retry=settings.job.call_retry,
        partial=bool(settings.job.partial_recovery),
        pause_seconds=task_parameter(model, "train", "max_pending_seconds_for_barrier") or PAUSE_SECONDS,
        ahead=settings.job.ahead,
        half=settings.job.half_precision_rows,
        end_seconds=float(settings.job.chief_timeout_seconds),
    )
    choice = ServerChoice.of(config, place, job.retry)
    states: list[ChiefState] = []
    with LateStop(lambda: bool(states)) as late, coordinator_at(place, config.num_workers) as coordinator:
        scaling = Scaling(
            Path(config.model_dir) / CLUSTER_FOLDER, JobShape(num_ps=config.num_ps, num_workers=config.num_workers)
        )
        scaling.check = lambda shape: _check_shape(shape, states[-1], place)
        coordinator.on_scale(scaling.ask)
        # The chief answers for the whole job: processes of one machine cannot all have this port.
        metrics = [ReadFiguresHook(lambda: _figures(coordinator, place))] if settings.watch.metrics_port else []
        watching = [*metrics, *health_hooks(settings, place, lambda: states[-1].addresses)]

        def attempt() -> RunResult:
            addresses = choice.servers()
            # `steps` counts from where the first attempt began, not from the snapshot that this one goes back to.
            ends = {"steps": None, "max_steps": states[0].last_step} if states and states[0].last_step else {}

            def make_state(model: MonolithModel, source: Source, state: StateConfig) -> ChiefState:
                where: dict[str, Any] = {"place": place, "addresses": addresses, "coordinator": coordinator}
                states.append(ChiefState(model, source, state, job=job, scaling=scaling, **where))
                return states[-1]

            source = PartSource(read(), config.num_workers, 0)
            try:
                result = run(
                    model,
                    config,
                    source=source,
                    make_state=make_state,
                    hooks=[*hooks, _ChiefHook(states, late, coordinator), *watching],
                    **{**how, **ends},
                )
                state = states[-1]
                if state.is_stopped_for_scaling:
                    state.release()
                coordinator.end()
                state.shut_down()
                choice.shut_down_all_but(addresses)
                shape = scaling.finish(result.global_step, states[0].last_step, is_scaled=state.is_stopped_for_scaling)
                return result if shape is None else replace(result, scale_to=(shape.num_ps, shape.num_workers))
            finally:
                for state in states:
                    state.close()  # a second time does nothing

        try:
            return _retries(settings, is_chief=True).run(attempt, choice.servers, coordinator.suspend)
        except KeyboardInterrupt:
            if states:
                raise
            coordinator.end()
            choice.shut_down_all_but([], waits=False)
            return not_begun("interrupted before training began; run again to begin")


def _check_shape(shape: JobShape, state: ChiefState, place: JobPlace) -> None:
    """Raise a ValueError for a shape that the job cannot have."""
    for name, count in ((PS, shape.num_ps), (WORKER, shape.num_workers)):
        is_listed = place.discovery.address_for(name, 0) is not None
        if is_listed and place.discovery.address_for(name, count - 1) is None:
            raise ValueError(f"the list of addresses that the job was started with has no {name} {count - 1}")
    state.redivided([None] * state.num_workers, shape.num_workers)


def _figures(coordinator: Coordinator, place: JobPlace) -> Iterable[tuple[str, dict[str, str], float]]:
    status = coordinator.status()
    return job_figures(with_servers(status, secret=place.secret, tls=place.tls, timeout_seconds=_STATUS_SECONDS))


def health_hooks(
    settings: RunSettings, place: JobPlace, find_servers: Callable[[], Sequence[str]], *, figures: bool = False
) -> list[Hook]:
    """Return what tells the people of a job how its parameter servers are; with `figures`, Prometheus too."""

    def ask(seconds: float) -> list[dict[str, Any]]:
        return ask_servers(find_servers(), secret=place.secret, tls=place.tls, timeout_seconds=seconds)

    health = ServerHealthHook(lambda: ask(_HEALTH_SECONDS))
    found: list[Hook] = [health]
    if (alerts := settings.watch.alerts) is not None:
        found.append(AlertHook(alerts, "servers", lambda context: health.problems))
    if figures and settings.watch.metrics_port:
        found.append(ReadFiguresHook(lambda: server_figures(ask(_STATUS_SECONDS))))
    return found


def _run_worker(
    model: MonolithModel, config: RunnerConfig, place: JobPlace, read: Callable[[], Source], hooks: Sequence[Hook]
) -> RunResult:
    settings = RunSettings.of(config, model)
    settings.process.apply()
    settings.job.make_room_for_files()
    limit = task_parameter(model, "train", "slow_start_steps") or 0
    first_step = int(limit * math.log(1 + config.index))
    choice = ServerChoice.of(config, place, settings.job.call_retry)
    has_joined = False

    def servers() -> list[str]:
        # Not before: a worker that waits for servers would not learn that the chief has ended the job.
        return choice.chosen() if has_joined else []

    def attempt() -> RunResult:
        nonlocal has_joined
        # The chief alone answers `monolith control`, for all workers.
        watching = [*standard_hooks(replace(settings.watch, summary_steps=0, controller=False, metrics_port=0)), *hooks]
        view = LiveView(every_steps=settings.watch.log_steps, folder=settings.saving.folder)
        for hook in [*watching, view, *model.training_hooks]:
            hook.begin()
        source = PartSource(read(), config.num_workers, config.index)
        with WorkerLink(place.chief(), config.index, secret=place.secret, tls=place.tls) as link:
            state = WorkerState(
                model,
                source,
                settings.state,
                link=link,
                place=place,
                settings=common_settings(config),
                retry=settings.job.call_retry,
                ahead=settings.job.ahead,
                half=settings.job.half_precision_rows,
            )
            has_joined = True
            try:
                link.wait_for_step(first_step, timeout_seconds=60.0 * settings.job.max_slow_start_minutes)
                every = [_WorkerHook(link), *watching, view, *model.training_hooks]
                trainer = Trainer(state, settings.loop, settings.saving, hooks=every, saves=False)
                return trainer.run(state.last_step)
            finally:
                state.close()

    place.chief()  # the first wait ends with an error: nobody may be about to start a chief
    try:
        return _retries(settings).run(attempt, servers)
    except JobOverError as error:
        return not_begun(str(error))


def not_begun(ending: str) -> RunResult:
    """Return how a process ended that took no step."""
    return RunResult(global_step=0, num_steps=0, ending=ending, loss=float("nan"), metrics={})


def _retries(settings: RunSettings, *, is_chief: bool = False) -> Retries:
    job = settings.job
    return Retries(max_retries=job.num_retries, wait_seconds=float(job.retry_wait_seconds), is_chief=is_chief)


class _ChiefHook(Hook):
    """Lets the state of a job know when its run is to stop."""

    def __init__(self, states: Sequence[ChiefState], late: LateStop, coordinator: Coordinator) -> None:
        self._states, self._late, self._coordinator = states, late, coordinator

    def after_create_session(self, context: RunContext) -> None:
        """Show the state whether a stop is asked for, and how to end a run that waits."""
        state = self._states[-1]
        state.stop_requested = lambda: context.stop_requested
        state.scaling.stop = lambda: _stop(context)
        state.watch_servers(context.fail)
        if context.forget is not None:
            self._coordinator.on_forget(context.forget)
        if self._late.received or state.scaling.wanted is not None:
            context.request_stop()


class _WorkerHook(Hook):
    """Keeps a worker in step with its job: it waits for saves and pauses, and ends or goes back with the others."""

    def __init__(self, link: WorkerLink) -> None:
        self._link = link

    def after_create_session(self, context: RunContext) -> None:
        """Listen for the end of the job, or of its generation."""
        self._link.on_stop = lambda: _stop(context)
        self._link.on_error = context.fail
        self._link.check()
        if self._link.stops:
            context.request_stop()

    def before_run(self, context: RunContext) -> None:
        """Wait while the job is paused, and for a save under way."""
        self._link.wait_while_paused(lambda: context.stop_requested)
        self._link.gate.__enter__()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Let a save begin."""
        self._link.gate.__exit__()

    def end(self, context: RunContext) -> None:
        """Hold nobody up any more."""
        self._link.gate.__exit__()


def _stop(context: RunContext) -> None:
    """End a run from another thread, also one that waits for events."""
    context.request_stop()
    main = threading.main_thread()
    if main.ident is not None and callable(signal.getsignal(signal.SIGTERM)):
        signal.pthread_kill(main.ident, signal.SIGTERM)
