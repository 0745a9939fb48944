"""Which parameter servers a job uses, if more are started than it needs."""

import time
from contextlib import ExitStack
from dataclasses import replace

import pytest

from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.parallel import ParameterServer, RetryConfig
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.job.place import PS, JobPlace
from monolith.train.roles import server_choice
from monolith.train.roles.server_choice import ServerChoice
from monolith.wire import SharedSecret
from tests.patience import PATIENCE_SECONDS

SECRET = SharedSecret.new("a job")
RETRY = RetryConfig(deadline_seconds=PATIENCE_SECONDS)


class Started:
    """Servers that are registered, in this process."""

    def __init__(self, folder, cleanup):
        self.folder, self.cleanup, self.servers = folder, cleanup, {}

    def start(self, index, seconds=0.0):
        server = self.cleanup.enter_context(ParameterServer(secret=SECRET))
        if seconds:
            answer = server._variables.answer
            server._variables.answer = lambda message: (time.sleep(seconds), answer(message))[1]
        self.discovery().register(PS, index, str(server.address))
        self.servers[index] = server
        return str(server.address)

    def end(self, index):
        server = self.servers.pop(index)
        self.discovery().deregister(PS, index, str(server.address))
        server.close()

    def discovery(self):
        return FilesServiceDiscovery(self.folder / "cluster")

    def choice(self, wait_seconds=PATIENCE_SECONDS, **settings):
        place = JobPlace(discovery=self.discovery(), secret=SECRET, wait_seconds=wait_seconds)
        config = RunnerConfig(model_dir=str(self.folder), num_ps=2, **settings)
        return ServerChoice.of(config, place, RETRY)


@pytest.fixture
def started(tmp_path, monkeypatch):
    monkeypatch.setattr(server_choice, "MEASURE_SECONDS", 0.3)
    with ExitStack() as cleanup:
        yield Started(tmp_path, cleanup)


def test_the_slowest_are_left_out_and_replace_those_that_are_lost(started):
    slow = started.start(0, seconds=0.5)
    first, second = started.start(1), started.start(2)
    choice = started.choice(num_extra_ps=1)
    chosen = choice.servers()
    assert set(chosen) == {first, second}
    assert started.choice(num_extra_ps=1).servers() == chosen, "a chief that is started again keeps them"
    started.end(1)
    expected = [slow if one == first else one for one in chosen]
    assert choice.servers() == expected, "the others keep their shards"
    started.start(1)
    assert choice.servers() == expected
    assert choice.chosen() == expected


def test_redundant_ones_wait_without_being_measured(started, monkeypatch):
    monkeypatch.setattr(server_choice, "measure_servers", lambda *_: pytest.fail("it measured"))
    addresses = [started.start(index) for index in range(2)]
    choice = started.choice(num_redundant_ps=1, uuid="job/7")
    assert choice.servers() == addresses, "the third need not be there"
    assert (started.folder / "ps_cluster_dir" / "job_7").read_text() == ",".join(addresses)
    spare = started.start(2)
    assert choice.servers() == addresses
    started.end(0)
    assert choice.servers() == [spare, addresses[1]]
    monkeypatch.setattr(server_choice, "SPARE_SECONDS", 0.1)
    choice.shut_down_all_but([spare, addresses[1]])
    assert not started.servers[1].wait(0) and not started.servers[2].wait(0)
    choice.shut_down_all_but([addresses[1]])
    assert started.servers[2].wait(PATIENCE_SECONDS), "a server that holds nothing ends with the job"


class Slow(FilesServiceDiscovery):
    """The spare registers after it was looked for once."""

    started: Started

    def query(self, name):
        found = super().query(name)
        if 2 not in self.started.servers:
            self.started.start(2)
        return found


def test_a_spare_that_starts_while_the_job_ends_is_ended_too(started):
    addresses = [started.start(index) for index in range(2)]
    choice = started.choice(num_redundant_ps=1)
    assert choice.servers() == addresses
    discovery = Slow(started.folder / "cluster")
    discovery.started = started
    replace(choice, place=replace(choice.place, discovery=discovery)).shut_down_all_but(addresses)
    assert started.servers[2].wait(PATIENCE_SECONDS)


def test_the_choice_of_an_earlier_job_is_forgotten(started):
    started.start(0), started.start(1)
    choice = started.choice(num_redundant_ps=1)
    choice.servers()
    for index in range(2):
        started.end(index)
    with pytest.raises(TimeoutError, match="waited 0.1 seconds for the chief to choose"):
        started.choice(wait_seconds=0.1, num_redundant_ps=1).chosen()
    addresses = [started.start(index) for index in (0, 1)]
    assert started.choice(num_redundant_ps=1).servers() == addresses


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_extra_ps": 1}, "num_extra_ps=1: spare parameter servers are processes of a job; set num_ps"),
        ({"num_ps": 1, "is_local": True, "num_redundant_ps": 1}, "num_redundant_ps=1: spare .* leave is_local out"),
        ({"num_ps": 1, "num_extra_ps": -1}, "num_extra_ps must not be negative, got -1"),
        (
            {"num_ps": 1, "num_extra_ps": 1, "num_redundant_ps": 1, "server_type": "ps", "index": 3},
            "no such ps, num_ps=1 and 2 spares",
        ),
    ],
)
def test_spares_that_nobody_can_use_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        job_config(RunnerConfig(model_dir="m", **settings)).check()
