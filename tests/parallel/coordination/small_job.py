"""What tests of a chief and its workers have in common: a generation, joining it, and looking at the job."""

import time

from monolith.parallel.coordination import Opening, WorkerLink
from monolith.parallel.coordination.messages import CoordinationRequest, ask
from monolith.wire import Client, SharedSecret
from tests.patience import PATIENCE_SECONDS

SECRET = SharedSecret.new("a test")


def opening(generation: int = 1, **more) -> Opening:
    return Opening(generation=generation, servers=["127.0.0.1:1"], plan_hash=7, settings={"num_ps": 1}, **more)


def join(link: WorkerLink, **changes):
    return link.join(**{"plan_hash": 7, "settings": {"num_ps": 1}, "timeout_seconds": PATIENCE_SECONDS, **changes})


def eventually(condition) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def chief_status(chief):
    with Client(chief.address, secret=SECRET) as client:
        return client.request(ask(CoordinationRequest.STATUS), PATIENCE_SECONDS).meta
