"""Batches made ahead: the same batches, and a position that knows nothing of what was made ahead."""

import threading

import pytest
import torch

from monolith.data import Batch, Schema, assert_resume_is_exact
from monolith.data.prefetch import Prefetched
from monolith.tensors import Ragged
from tests.patience import PATIENCE_SECONDS


class Counting:
    """Batches that hold their number, as a source; notices a second thread, and fails or waits on demand."""

    schema = Schema.of(n="int64")

    def __init__(self, num_batches=6, first=0, step=1, *, fail_at=None, wait_at=None):
        self.num_batches, self.first, self.step = num_batches, first, step
        self.fail_at, self.wait_at = fail_at, wait_at
        self.next = first
        self.go_on = threading.Event()
        self.is_busy = threading.Lock()
        self.made = []

    def __iter__(self):
        while self.next < self.num_batches:
            with self.is_busy:
                number = self.next
                if number == self.wait_at:
                    self.go_on.wait(PATIENCE_SECONDS)
                if number == self.fail_at:
                    self.fail_at = None
                    self.next = 999  # a source that lost its place
                    raise OSError("read error")
                self.made.append(number)
                self.next = number + self.step
            tensor = torch.tensor([number])
            yield Batch(columns={"n": tensor}, first=number, last=number + 1)

    def state(self):
        return {"next": self.next, "nested": [self.next]}

    def restore(self, state):
        assert not self.is_busy.locked(), "the thread still reads"
        if "next" not in state:
            raise ValueError(f"no position: {state}")
        self.next = state["next"]

    def shard(self, num_shards, index):
        return Counting(self.num_batches, self.first + index, num_shards)


def numbers(batches) -> list[int]:
    return [batch.columns["n"].item() for batch in batches]


@pytest.mark.parametrize("capacity", [0, 1, 2, 10])
def test_batches_positions_and_shards_are_those_of_the_source(capacity):
    assert_resume_is_exact(lambda: Prefetched(Counting(), capacity=capacity))
    prefetched = Prefetched(Counting(), capacity=capacity)
    assert prefetched.schema == Counting.schema
    assert numbers(prefetched.shard(2, 1)) == [1, 3, 5]
    assert numbers(prefetched) == [0, 1, 2, 3, 4, 5]


def wait_until_made(source: Counting, count: int) -> None:
    deadline = threading.Event()
    for _ in range(60_000):
        if len(source.made) >= count:
            return
        deadline.wait(0.001)
    raise AssertionError(f"only {source.made} were made")


def test_the_position_is_that_of_the_consumer():
    source = Counting()
    prefetched = Prefetched(source, capacity=3)
    batches = iter(prefetched)
    assert prefetched.state()["next"] == 0
    assert next(batches).columns["n"].item() == 0
    wait_until_made(source, 4)
    assert source.state()["next"] >= 4
    assert prefetched.state() == {"next": 1, "nested": [1]}


def test_leaving_the_loop_and_coming_back_loses_nothing():
    prefetched = Prefetched(Counting(), capacity=3)
    seen = []
    for batch in prefetched:
        seen.append(batch.first)
        if batch.first == 2:
            break
    assert seen + numbers(prefetched) == [0, 1, 2, 3, 4, 5]
    assert numbers(prefetched) == []
    assert prefetched.state()["next"] == 6


def test_a_state_that_was_handed_out_does_not_change():
    prefetched = Prefetched(Counting(), capacity=2)
    batches = iter(prefetched)
    next(batches)
    state = prefetched.state()
    state["nested"].append("spoilt")
    assert prefetched.state() == {"next": 1, "nested": [1]}
    next(batches)
    assert state["next"] == 1


@pytest.mark.parametrize("capacity", [0, 3])
def test_restore_in_the_middle(capacity):
    source = Counting()
    prefetched = Prefetched(source, capacity=capacity)
    batches = iter(prefetched)
    assert [next(batches).first for _ in range(4)] == [0, 1, 2, 3]
    prefetched.restore({"next": 1, "nested": [1]})
    assert prefetched.state()["next"] == 1
    assert numbers(batches) == [1, 2, 3, 4, 5]


def test_restore_makes_ahead_at_once():
    source = Counting(num_batches=100)
    prefetched = Prefetched(source, capacity=2)
    next(iter(prefetched))
    prefetched.restore({"next": 50})
    wait_until_made(source, max(i for i, n in enumerate(source.made) if n < 50) + 3)
    assert prefetched.state()["next"] == 50


def test_a_wrong_position_changes_nothing():
    prefetched = Prefetched(Counting(), capacity=2)
    batches = iter(prefetched)
    next(batches)
    with pytest.raises(ValueError, match="no position"):
        prefetched.restore({"wrong": 1})
    assert prefetched.state()["next"] == 1
    assert numbers(batches) == [1, 2, 3, 4, 5]


def test_an_error_comes_after_the_batches_before_it_and_the_next_try_goes_on_there():
    prefetched = Prefetched(Counting(fail_at=3), capacity=2)
    seen = []
    with pytest.raises(OSError, match="read error"):
        for batch in prefetched:
            seen.append(batch.first)
    assert seen == [0, 1, 2]
    assert prefetched.state()["next"] == 3
    assert numbers(prefetched) == [3, 4, 5]


def test_closing_brings_the_source_back():
    source = Counting()
    with Prefetched(source, capacity=3) as prefetched:
        next(iter(prefetched))
        wait_until_made(source, 4)
    assert source.state()["next"] == 1
    assert numbers(prefetched) == [1, 2, 3, 4, 5]


def test_a_source_that_does_not_come_back_is_named():
    source = Counting(wait_at=1)
    prefetched = Prefetched(source, capacity=1, stop_timeout_seconds=0.05)
    next(iter(prefetched))
    with pytest.raises(RuntimeError, match=r"Counting did not give back control within 0\.05 s"):
        prefetched.restore({"next": 0})
    source.go_on.set()


def test_capacity_must_not_be_negative():
    with pytest.raises(ValueError, match="capacity must be 0"):
        Prefetched(Counting(), capacity=-1)


@pytest.mark.parametrize("capacity", [0, 2])
def test_batches_for_a_device(capacity):
    assert numbers(Prefetched(Counting(), capacity=capacity, device="cpu")) == [0, 1, 2, 3, 4, 5]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: copies to one are not tested")
@pytest.mark.parametrize("capacity", [0, 2])
def test_batches_on_a_gpu(capacity):
    batches = list(Prefetched(Counting(), capacity=capacity, device="cuda"))
    assert all(batch.columns["n"].is_cuda for batch in batches)
    assert numbers(batches) == [0, 1, 2, 3, 4, 5]
    assert_resume_is_exact(lambda: Prefetched(Counting(), capacity=capacity, device="cuda"))
    assert isinstance(Ragged.from_lists([[1]]).to("cuda"), Ragged)
