"""A parameter server has places for all connections of a job, however many workers there are."""

import resource
from contextlib import ExitStack

import pytest

from monolith.cluster.platform.open_files import make_room_for_files
from monolith.parallel import ParameterServer
from monolith.parallel.control import ControlRequest, request
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.job import parameter_server
from monolith.train.job.parameter_server import run_ps
from monolith.train.job.place import place_of
from monolith.train.job_config import MIN_SERVER_CONNECTIONS
from monolith.wire import SharedSecret, connect

MORE = 1100
"""Connections at a time; a server of a small job has fewer places."""


@pytest.fixture
def room():
    """Let this process open both sides of that many connections; skip where the system does not."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not make_room_for_files(2 * MORE + 200, reason="a test has both sides of its connections"):
        pytest.skip(f"the system allows {before[1]} open files")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_has_places_for_rows_and_weights_of_every_worker():
    for num_workers in (1, 512, 1000, 5000):
        job = job_config(RunnerConfig(server_type="ps", num_ps=1000, num_workers=num_workers))
        assert job.server_connections >= max(MIN_SERVER_CONNECTIONS, 2 * num_workers)
        assert job.num_files > 2 * num_workers


def test_a_process_that_is_a_server_gets_the_limit_of_its_job(tmp_path, monkeypatch):
    seen = {}

    class Server(ParameterServer):
        def __init__(self, *args, **how):
            seen.update(how)
            raise RuntimeError("not needed")

    monkeypatch.setattr(parameter_server, "ParameterServer", Server)
    config = RunnerConfig(model_dir=tmp_path, server_type="ps", num_ps=1000, num_workers=1000)
    with place_of(config, None) as place, pytest.raises(RuntimeError, match="not needed"):
        run_ps(place, job_config(config))
    assert seen["max_connections"] == 4000


@pytest.mark.usefixtures("room")
def test_more_connections_than_a_small_job_may_have_are_served():
    secret = SharedSecret.new("a test")
    limit = job_config(RunnerConfig(num_ps=1, num_workers=MORE)).server_connections
    with ExitStack() as open_, ParameterServer(secret=secret, max_connections=limit) as server:
        clients = [open_.enter_context(connect(server.address, secret=secret)) for _ in range(MORE)]
        for _ in range(2):  # the second time all of them are there
            for client in clients:
                assert client.request(request(ControlRequest.STATUS)).meta
