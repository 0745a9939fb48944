"""run_ps: what a process does that is a parameter server."""

import logging
import signal
import threading
from types import FrameType

from monolith.parallel import ParameterServer
from monolith.train.job.place import PS, JobPlace
from monolith.train.job_config import JobConfig

_POLL_SECONDS = 0.5

_log = logging.getLogger(__name__)


def run_ps(place: JobPlace, job: JobConfig) -> None:
    """Hold a shard of whatever model the chief sends, until the chief ends the job, SIGTERM or Ctrl-C.

    It reports whether it stays within the memory that the job allows.
    """
    job.make_room_for_files()
    index = job.index
    stopped = threading.Event()
    before = {}
    if threading.current_thread() is threading.main_thread():

        def stop(number: int, frame: FrameType | None) -> None:
            stopped.set()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ParameterServer(
            place.listen_at(PS, index),
            secret=place.secret,
            tls=place.tls,
            insecure=place.insecure,
            machine=job.machine,
            max_connections=job.server_connections,
        ) as server:
            place.register(PS, index, server.address)
            _log.info("parameter server %d listens at %s", index, server.address)
            try:
                while not server.wait(_POLL_SECONDS) and not stopped.is_set():
                    pass
            finally:
                place.deregister(PS, index, server.address)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
