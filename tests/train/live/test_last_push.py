"""The last push of a live run: every server that can be reached has every change, whatever happens to others."""

import logging
from contextlib import ExitStack

import pytest
import torch

from monolith.delta import DeltaReceiver
from monolith.export import load_export, newest_export
from monolith.train.live.live_config import LiveConfig
from monolith.train.live.serving import LiveServing
from monolith.train.state import TrainState
from monolith.wire import SharedSecret, listen
from tests.train.test_live_sources import Counting, read_by_workers, trace_once  # noqa: F401

LAST = torch.tensor([7])
"""The id whose row changes just before the run ends."""


class Server:
    """A server of the newest version; it can be told to fail once."""

    def __init__(self, base, name, cleanup):
        self.served = load_export(newest_export(base))
        self.receiver = DeltaReceiver(self.served, plan_hash=self.served.plan_hash, generation=0)
        self.fails_once = False
        server = listen(f"unix:{base.parent / name}", self.handle, secret=SharedSecret.of_folder(base))
        self.address = str(cleanup.enter_context(server).address)

    def handle(self, message):
        if self.fails_once:
            self.fails_once = False
            raise RuntimeError("busy")
        return self.receiver.handle(message)

    @property
    def has_last(self):
        return self.served.tables["uid"].lookup(LAST).item() == 1


@pytest.fixture
def run(tmp_path, caplog):
    """Make a live run that pushes only when it starts and when it ends; servers are where `find` says."""

    def made(find):
        state = TrainState(Counting(read_by_workers), read_by_workers())
        config = LiveConfig(export_base=tmp_path / "base", name="counting", sync_seconds=1000.0)
        return state, LiveServing(state, config, find=[find])

    caplog.set_level(logging.WARNING)
    return made


def train(state):
    state.tables["uid"].assign_add(LAST, torch.ones(1, 1))


def test_a_server_that_came_after_the_last_look_gets_the_last_changes(run, tmp_path, caplog):
    found = []
    with ExitStack() as cleanup:
        state, live = run(lambda: list(found))
        with live:
            server = Server(tmp_path / "base", "late", cleanup)
            train(state)
            found.append(server.address)  # the run ends before the loop looks again
        assert server.has_last
    assert "last changes" not in caplog.text


def test_a_last_look_that_fails_keeps_the_servers_known_before(run, tmp_path, caplog):
    def find():
        raise OSError("the registry is away")

    with ExitStack() as cleanup:
        state, live = run(find)
        with live:
            server = Server(tmp_path / "base", "known", cleanup)
            live._loop.stop()  # no further look of the loop comes in between
            live._sender.retarget([server.address])
            train(state)
        assert server.has_last
    assert "servers cannot be looked up, the last changes go to those known before: the registry is away" in caplog.text


@pytest.mark.parametrize(
    ("refusal", "words"),
    [({"generation": 1000}, "generation 1000 has taken over"), ({"plan_hash": 1}, "is served here; export the model")],
    ids=["another trainer", "another plan"],
)
def test_a_server_that_refuses_does_not_keep_the_last_changes_from_others(run, tmp_path, caplog, refusal, words):
    found = []
    with ExitStack() as cleanup:
        state, live = run(lambda: list(found))
        with live:
            refusing, busy = (Server(tmp_path / "base", name, cleanup) for name in ("refusing", "busy"))
            served = refusing.served
            refusing.receiver.adopt(served, **{"plan_hash": served.plan_hash, "generation": 0, **refusal})
            busy.fails_once = True
            gone = f"unix:{tmp_path / 'gone'}"
            train(state)
            found += [refusing.address, gone, busy.address]
        assert busy.has_last and not refusing.has_last
    last = "the last changes did not reach the server at"
    warnings = [record.message for record in caplog.records if record.message.startswith(last)]
    assert len(warnings) == 2
    assert warnings[0].startswith(f"{last} {gone}: ")
    assert warnings[1].startswith(f"{last} {refusing.address}: ") and words in warnings[1]


def test_a_run_that_ends_without_any_server_says_so(run, caplog):
    _, live = run(list)
    with live:
        pass
    assert "no server is registered that could take the last changes" in caplog.text
