"""run_dispatcher: what a process does that gives out the data of a job."""

import logging
import threading
from pathlib import Path

from monolith.data_service import Dispatcher, DispatcherConfig
from monolith.data_service.dispatch.ledger_file import num_splits_in
from monolith.train.config import RunnerConfig
from monolith.train.job.place import DISPATCHER, JobPlace
from monolith.train.stop_signals import StopSignals
from monolith.wire import Address

STATE_FOLDER = "data_service"
"""In model_dir: what the dispatcher remembers."""

INPUT = "model:input_fn"
"""What the service reads, for people: every data worker asks its own copy of the model."""

SPLITS_PER_WORKER = 8
"""Parts that the data of each worker is cut into: enough to keep several data workers busy."""

_ADDRESS_FILE = "address"
_POLL_SECONDS = 0.5

_log = logging.getLogger(__name__)


def run_dispatcher(place: JobPlace, config: RunnerConfig) -> None:
    """Give splits of the job's data to its workers until the chief ends the job, SIGTERM or Ctrl-C."""
    stopped = threading.Event()
    folder = Path(config.model_dir) / STATE_FOLDER
    with StopSignals(stopped.set), _dispatcher_at(place, config, folder) as dispatcher:
        address = Address.parse(dispatcher.address)
        (folder / _ADDRESS_FILE).write_text(str(address))
        place.register(DISPATCHER, 0, address)
        try:
            while not dispatcher.wait(_POLL_SECONDS) and not stopped.is_set():
                pass
        finally:
            place.deregister(DISPATCHER, 0, address)


def _dispatcher_at(place: JobPlace, config: RunnerConfig, folder: Path) -> Dispatcher:
    """Listen where the dispatcher of this job listened last, so that its workers find the new one, or where it may."""
    # The splits stay as they were cut, whatever number of workers goes on with them.
    num_splits = num_splits_in(folder) or SPLITS_PER_WORKER * config.num_workers

    def listening_at(address: str) -> Dispatcher:
        return Dispatcher(
            DispatcherConfig(
                input=INPUT,
                num_splits=num_splits,
                state_path=str(folder),
                address=address,
                tls=place.tls,
                secret=place.secret,
                insecure=place.insecure,
            )
        )

    wanted = place.listen_at(DISPATCHER, 0)
    before = folder / _ADDRESS_FILE
    if Address.parse(wanted).port == 0 and before.exists():
        last = Address.parse(before.read_text())
        if last.host == Address.parse(wanted).host:
            try:
                return listening_at(str(last))
            except OSError as error:
                _log.warning("%s is taken (%s); workers must find the new address", last, error)
    return listening_at(wanted)
