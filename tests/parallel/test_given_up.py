"""A server that was given up is not waited for again."""

import socket

import pytest

from monolith.parallel import RemoteDense, RemoteShard, RetryConfig
from monolith.parallel.dense.requests import DenseRequest
from monolith.parallel.server_group import GivenUp
from monolith.wire import Message

SHORT = RetryConfig(deadline_seconds=0.2, attempt_seconds=0.1, connect_seconds=0.1)
LONG = RetryConfig(deadline_seconds=3600, max_pause_seconds=3600)
"""Who waited as long as this would be ended by the time limit of the test."""


@pytest.fixture
def nobody():
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "{}:{}".format(*server.getsockname())
    return address


@pytest.fixture
def silent():
    """An address where nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield "{}:{}".format(*server.getsockname())


@pytest.mark.timeout(60)
def test_other_clients_of_the_same_state_do_not_wait_again(nobody):
    given_up = GivenUp()
    with RemoteDense([nobody], retry=SHORT, given_up=given_up) as dense, pytest.raises(TimeoutError):
        dense._clients.ask_one(0, Message(type=DenseRequest.FETCH))
    with (
        RemoteShard(nobody, retry=LONG, given_up=given_up) as shard,
        shard.another() as another,
        RemoteDense([nobody], retry=LONG, given_up=given_up) as dense,
    ):
        for ask in (shard.status, another.shut_down, lambda: dense._clients.ask_one(0, Message(type=90))):
            with pytest.raises(
                ConnectionError, match=f"{nobody}: this parameter server was given up: no answer within"
            ):
                ask()
    with RemoteShard(nobody, retry=SHORT) as fresh, pytest.raises(TimeoutError):
        fresh.status()


@pytest.mark.timeout(60)
def test_what_may_be_at_work_is_not_given_up(silent):
    given_up = GivenUp()
    with RemoteShard(silent, retry=SHORT, given_up=given_up) as shard:
        with pytest.raises(TimeoutError):
            shard.stop_tracking()  # it may have to wait for a save of minutes
        with pytest.raises(TimeoutError), shard.another(SHORT) as another:
            another.status()  # of somebody who has no patience
        with pytest.raises(TimeoutError):
            shard.status()  # needs no turn
        with pytest.raises(ConnectionError, match="was given up"):
            shard.status()
