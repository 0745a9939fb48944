"""Changes that are under way when a generation begins or a save takes its moment: rows and applied batches agree."""

import select
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import pytest
import torch

from monolith.errors import FencedError
from monolith.parallel import BatchKey
from monolith.parallel.control import BeginAgainError
from monolith.parallel.shard import served_shard
from monolith.wire import Deadline
from tests.parallel.served_state import PLAN, ServedState, content, saved_content
from tests.parallel.test_parameter_servers import save, saver_of
from tests.patience import PATIENCE_SECONDS

IDS = torch.arange(50)
QUIET_SECONDS = 0.2


@pytest.fixture
def served():
    with ExitStack() as cleanup:
        yield lambda *args, **settings: cleanup.enter_context(ServedState(*args, **settings))


def push(tables, begin):
    plan = tables.plan(IDS, [0, len(IDS)])
    plan.apply_gradients(torch.ones(4 * len(IDS)), time=9, key=BatchKey("ratings/0", begin, begin + 10))


class HeldService:
    """Native code that begins to answer a client once it is let go; until then its request lies in the socket."""

    def __init__(self, service):
        self._service = service
        self.arrived, self.go = threading.Event(), threading.Event()

    def serve(self, socket, timeout_ms):
        select.select([socket], [], [])
        self.arrived.set()
        assert self.go.wait(PATIENCE_SECONDS)
        self._service.serve(socket, timeout_ms)

    def __getattr__(self, name):
        return getattr(self._service, name)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as threads:
        yield threads


def held_push(state, pool):
    """Let a push arrive at the only server, and be held there; return what holds it, and the future of the push."""
    shard = state.servers[0].shard
    held = shard.served._service = HeldService(shard.served._service)
    state.join()
    pushed = pool.submit(push, state.tables, 0)
    assert held.arrived.wait(PATIENCE_SECONDS)
    return held, pushed


def check_applied_once(state):
    """Let the batch that was held come again in generation 2: it is in the rows, and counts."""
    state.generation = 2
    after = content(state.servers[0].shard.tables)
    assert state.servers[0].shard.served.applied_batches() == {"ratings/0": 10}
    push(state.join().tables, 0)
    assert content(state.servers[0].shard.tables) == after
    assert state.tables.num_rows()["uid"] == len(IDS)


def test_a_push_under_way_counts_in_the_next_generation(served, pool):
    state = served(1)
    held, pushed = held_push(state, pool)
    begun = pool.submit(state.shards[0].init, PLAN, 0, 1, generation=2)
    try:
        assert not wait([begun], QUIET_SECONDS).done, "it waits for the push"
    finally:
        held.go.set()
    assert begun.result()["generation"] == 2
    with pytest.raises(FencedError):
        pushed.result()
    check_applied_once(state)


def test_a_request_that_does_not_end_lets_no_generation_begin(served, pool, monkeypatch):
    monkeypatch.setattr(served_shard, "CUT_SECONDS", 0.1)
    state = served(1)
    held, pushed = held_push(state, pool)
    try:
        with pytest.raises(BeginAgainError, match="1 requests of generation 1 did not end within 0.1 s"):
            state.shards[0].init(PLAN, 0, 1, generation=2)
        status = state.shards[0].status()
        assert (status["generation"], status["is_ready"]) == (1, False)
        monkeypatch.setattr(served_shard, "CUT_SECONDS", PATIENCE_SECONDS)
    finally:
        held.go.set()
    state.shards[0].init(PLAN, 0, 1, generation=2)
    with pytest.raises(FencedError):
        pushed.result()
    check_applied_once(state)


def test_a_client_that_reads_nothing_does_not_hold_up_a_generation(served):
    state = served(1).join()
    plan = state.tables.plan(torch.arange(1_000_000), [0, 1_000_000])
    call = plan._batch.pull(torch.empty(4_000_000).numpy(), plan_hash=PLAN.hash, half=False)
    connection = state.tables.servers.links[0].connection(Deadline.after(PATIENCE_SECONDS))
    assert call.send(0, connection.fileno(), 1, round(1000 * PATIENCE_SECONDS)) is None
    select.select([connection.fileno()], [], [])  # the reply has begun, and is more than sockets hold
    old = state.servers[0].shard.served
    assert old.num_connections == 1
    assert state.shards[0].init(PLAN, 0, 1, generation=2)["generation"] == 2
    assert old.num_connections == 0


class PushesMeanwhile:
    """Lets a client push after the first few times that a server notes which batches it has applied."""

    def __init__(self, state, times):
        self._shard, self._tables, self._left, self.num_pushes = state.servers[0].shard, state.tables, times, 0
        self._notes, self._shard.notes = self._shard.notes, self

    def __call__(self):
        notes = self._notes()
        if self._left:
            self._left -= 1
            self.num_pushes += 1
            push(self._tables, 10 * self.num_pushes)
        return notes


@pytest.mark.parametrize("is_delta", [False, True])
def test_a_push_that_meets_the_moment_of_a_save_is_in_rows_and_notes(served, tmp_path, is_delta):
    state = served(1).join()
    state.dense, saver = torch.zeros(3), saver_of(state, tmp_path)
    save(saver, state, delta=is_delta)
    push(state.tables, 0)
    state.step = 1
    meanwhile = PushesMeanwhile(state, times=2)
    path = save(saver, state, delta=is_delta)
    assert meanwhile.num_pushes == 2
    assert saved_content(path)[0] == content(state.servers[0].shard.tables)
    restored = served(1)
    restored.shards[0].restore_part(str(path))
    assert restored.servers[0].shard.served.applied_batches() == {"ratings/0": 30}


def test_a_client_that_never_waits_ends_a_save(served):
    state = served(1).join()
    PushesMeanwhile(state, times=1000)
    with pytest.raises(BeginAgainError, match="changed rows during each of 20 attempts"):
        state.shards[0].freeze("a save", state.shards[0].progress(), track=False)
