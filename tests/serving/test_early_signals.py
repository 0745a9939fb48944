"""A signal that comes while a server begins, before it answers, ends it as any other does."""

import signal
from pathlib import Path

import pytest

from monolith.serving import server
from monolith.serving.stopping import StoppableServer
from tests.export.movie import export


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Serves in this thread; fails, instead of answering for ever, if a signal was lost."""
    export(tmp_path / "versions")
    ready_file = tmp_path / "ready.json"
    # It is a setting of the whole process.
    monkeypatch.setattr(server, "_share_work", lambda num_threads: None)
    has_answered = []

    async def end(self, counter):
        has_answered.append(counter)
        return True

    # uvicorn asks it for the first time when it begins to answer.
    monkeypatch.setattr(StoppableServer, "on_tick", end)

    def run(announce):
        config = server.ServerConfig(export_base=tmp_path / "versions", port=0, ready_file=ready_file)
        server.serve(config, announce=lambda ready: announce(Path(ready_file)))
        assert not has_answered, "the signal was lost"
        assert not ready_file.exists()

    return run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_http_server_begins_is_not_lost(serve, monkeypatch, number):
    start_listening = server.start_listening

    def interrupted(*args):
        signal.raise_signal(number)
        start_listening(*args)

    monkeypatch.setattr(server, "start_listening", interrupted)
    announced = []
    serve(announced.append)
    assert not announced


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_http_server_begins_is_not_lost(serve, number):
    announced = []

    def interrupted(ready_file):
        announced.append(ready_file.exists())
        signal.raise_signal(number)

    serve(interrupted)
    assert announced == [True]
