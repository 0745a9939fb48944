"""A parameter server that is started again at the same address, empty: the job begins again, as after any loss."""

import threading
from contextlib import ExitStack

import pytest

import monolith as mono
from monolith.cli.mistakes import is_user_error
from monolith.errors import PlanMismatchError
from monolith.parallel import ParameterServer, RemoteShard
from monolith.parallel.control import ControlRequest
from monolith.parallel.coordination.server_watch import ServerWatch
from monolith.train.job.place import PS, place_of
from monolith.train.job.retries import is_loss
from tests.parallel.served_state import PLAN, QUICK, SECRET
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import Counting, config_of, counted, expected

NUM_PS = 2
EVENTS = 160
CHIEF = {"server_type": "worker", "index": 0, "num_ps": NUM_PS, "num_workers": 1}


class Restarts:
    """The parameter servers of a job; one of them is started again just before a call of the chief to it."""

    def __init__(self, folder, cleanup):
        self._cleanup, self._lock, self.count = cleanup, threading.Lock(), 0
        self._place = cleanup.enter_context(place_of(config_of(folder, **CHIEF), None))
        self._servers = [self._start("127.0.0.1:0") for _ in range(NUM_PS)]
        for index, server in enumerate(self._servers):
            self._place.register(PS, index, server.address)

    def before(self, monkeypatch, call):
        """Let the next call of this name find its server empty."""
        carry_out = getattr(RemoteShard, call)

        def restart_and_call(shard, *args, **options):
            with self._lock:
                if not self.count:
                    self.count += 1
                    self._restart(str(shard.address))
            return carry_out(shard, *args, **options)

        monkeypatch.setattr(RemoteShard, call, restart_and_call)

    def _restart(self, address):
        (old,) = (one for one in self._servers if str(one.address) == address)
        old.close()
        self._servers[self._servers.index(old)] = self._start(address)

    def _start(self, address):
        return self._cleanup.enter_context(ParameterServer(address, secret=self._place.secret))


@pytest.fixture
def cleanup():
    with ExitStack() as stack:
        yield stack


def train(folder, num_events, **changes):
    config = config_of(folder, **CHIEF, **changes)
    mono.Estimator(Counting, config, params={"events": num_events}).train(max_steps=num_events // 8)


@pytest.mark.parametrize("call", ["restore_part", "mark_initialized", "progress", "freeze", "write_part"])
def test_a_job_begins_again_and_trains_on_everything_once(cleanup, tmp_path, monkeypatch, call):
    with ExitStack() as first:
        Restarts(tmp_path, first)
        train(tmp_path, EVENTS)
    servers = Restarts(tmp_path, cleanup)
    servers.before(monkeypatch, call)
    train(tmp_path, 2 * EVENTS)
    assert servers.count == 1
    rows, weight, step = counted(tmp_path)
    assert rows == expected(2 * EVENTS)
    assert weight == step == 2 * EVENTS // 8


@pytest.fixture
def emptied(cleanup):
    """A shard whose server was started again since the chief said what it holds."""
    server = cleanup.enter_context(ParameterServer(secret=SECRET))
    shard = cleanup.enter_context(RemoteShard(server.address, secret=SECRET, retry=QUICK))
    shard.init(PLAN, 0, 1, generation=1)
    server.close()
    cleanup.enter_context(ParameterServer(server.address, secret=SECRET))
    return shard


CALLS = {
    "restore": lambda shard: shard.restore_part("/no/such/snapshot"),
    "ready": lambda shard: shard.mark_initialized(),
    "progress": lambda shard: shard.progress(),
    "freeze": lambda shard: shard.freeze("a save", {}, False),
    "write": lambda shard: shard.write_part("a save", "/no/such/folder", 1, 1, False),
    "applied": lambda shard: shard.applied(),
    "forget": lambda shard: shard.forget({}),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_says_what_is_the_matter_and_counts_as_a_loss(emptied, call):
    with pytest.raises(ConnectionError, match=f"{emptied.address}: .* is empty: the chief has not said yet") as caught:
        CALLS[call](emptied)
    assert is_loss(caught.value)


def test_work_that_a_server_has_lost_counts_as_a_loss(emptied):
    with pytest.raises(ConnectionError, match="was started anew since; begin again") as caught:
        emptied._ask(ControlRequest.WAIT, work="restore 1")
    assert is_loss(caught.value)


def test_a_chief_that_waits_for_events_notices_it(emptied):
    over, asked, found = threading.Event(), [], []

    def on_loss(error):
        found.append(error)
        over.set()

    def is_idle():
        asked.append(1)
        if len(asked) > 3:
            over.set()
        return True

    with ServerWatch([emptied], is_idle=is_idle, on_loss=on_loss, every_seconds=0.01):
        assert over.wait(PATIENCE_SECONDS)
    assert len(found) == len(asked) == 1, "it notices at once, and asks no more"
    assert is_loss(found[0])


def test_another_plan_or_folder_is_still_a_wrong_setting(emptied, tmp_path):
    emptied.init(PLAN, 0, 1, generation=1)
    emptied.freeze("a save", emptied.progress(), track=False)
    for error, call in (
        (PlanMismatchError, lambda: emptied.init(PLAN, 1, 2, generation=1)),
        (OSError, lambda: emptied.write_part("a save", str(tmp_path / "none"), 1, 1, changes=False)),
        (OSError, lambda: emptied.restore_part(str(tmp_path / "none"))),
    ):
        with pytest.raises(error) as caught:
            call()
        assert is_user_error(caught.value)
        assert not is_loss(caught.value)
