"""run_dsworker: what a process does that reads data for the workers of a job; and how a worker reads from there."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from monolith.data import Source
from monolith.data.input_config import InputConfig
from monolith.data_service import DataWorker, DataWorkerConfig, end_service
from monolith.data_service.extra_workers import extra_workers
from monolith.errors import MonolithError
from monolith.model import Mode, MonolithModel
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import input_config
from monolith.train.job.data_roles.dispatcher_role import INPUT
from monolith.train.job.place import DSWORKER, JobPlace
from monolith.train.made_model import make_source
from monolith.train.stop_signals import StopSignals
from monolith.wire import Address

_PATIENCE_SECONDS = 15.0
"""After so long without the dispatcher, a data worker asks where it is now: its successor may listen elsewhere."""

_log = logging.getLogger(__name__)


def run_dsworker(place: JobPlace, index: int, read: Callable[[], Source]) -> None:
    """Read what `read` returns, split by split, until the chief ends the job, SIGTERM or Ctrl-C.

    Raises:
        TimeoutError: the dispatcher does not answer, nor another one in its place.
    """
    at = place.listen_at(DSWORKER, index)
    while True:
        config = DataWorkerConfig(
            dispatcher=place.dispatcher(),
            address=at,
            advertise=place.seen_by_others(Address.parse(at)).host,
            input=INPUT,
            patience_seconds=_PATIENCE_SECONDS,
            tls=place.tls,
            secret=place.secret,
            insecure=place.insecure,
        )
        try:
            with DataWorker(config, read) as worker, StopSignals(worker.close):
                _log.info("data worker %d listens at %s", index, worker.address)
                worker.wait()
                return
        except TimeoutError as error:
            _log.warning("%s; waiting for its successor", error)


def service_input(place: JobPlace, config: RunnerConfig) -> InputConfig:
    """Return the settings of the input, with the job's own dispatcher if it has one and none is named."""
    found = input_config(config)
    if not found.use_dataservice or found.dispatcher:
        return found
    return replace(found, dispatcher=place.dispatcher(), secret=place.secret)


def end_data_service(place: JobPlace, config: InputConfig) -> None:
    """Let the job's own dispatcher and data workers end, if there are any."""
    if config.secret is None or config.dispatcher is None:
        return
    try:
        end_service(config.dispatcher, tls=place.tls, secret=config.secret)
    except (OSError, MonolithError) as error:  # it is gone already, or will be killed
        _log.warning("the dispatcher of the data service could not be asked to end: %s", error)


@contextmanager
def extra_dsworkers(place: JobPlace, config: RunnerConfig, reads: InputConfig, model: MonolithModel) -> Iterator[None]:
    """Let data workers read in this process, as `num_extra_dsworker_on_gpu_worker` says, while the block runs."""
    if not reads.num_extra_workers:
        yield
        return
    assert reads.dispatcher is not None
    at = replace(Address.parse(place.listen_at(config.server_type, config.index)), port=0)
    worker = DataWorkerConfig(
        dispatcher=reads.dispatcher,
        address=str(at),
        advertise=place.seen_by_others(at).host,
        tls=place.tls,
        secret=reads.secret,
        insecure=place.insecure,
    )
    # A dispatcher of another service names its own input, which is imported.
    own = None if reads.secret is None else partial(make_source, model, Mode.TRAIN, reads)
    with extra_workers(reads.num_extra_workers, worker, own):
        yield
