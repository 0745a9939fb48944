"""The touched key set holds each id once, drops all on overflow, and is emptied by steal."""

import random
import threading

import pytest
import torch

from monolith.native_training.touched_key_set_ops import (
    TOUCHED_KEY_SET_CAPACITY,
    TOUCHED_KEY_SET_CONCURRENCY_LEVEL,
    TouchedKeySet,
    create_touched_key_set,
)


def stolen(touched: TouchedKeySet) -> list[int]:
    return sorted(touched.steal().tolist())


def test_defaults() -> None:
    assert TOUCHED_KEY_SET_CAPACITY == 2097152
    assert TOUCHED_KEY_SET_CONCURRENCY_LEVEL == 1024
    assert TouchedKeySet().capacity == 2097152


def test_basic() -> None:
    touched = TouchedKeySet(1000, 1)
    assert touched.insert(torch.arange(1000)) == 0
    assert stolen(touched) == list(range(1000))
    assert stolen(touched) == []


def test_overflow_drops_everything() -> None:
    touched = TouchedKeySet(1000, 1)
    assert touched.insert(torch.arange(1005)) == 1001
    assert stolen(touched) == [1001, 1002, 1003, 1004]


@pytest.mark.parametrize("one", [0, -1, -(1 << 63), -(1 << 63) + 1, (1 << 63) - 1])
def test_any_id_comes_and_goes_like_any_other(one: int) -> None:
    # One of them marks free places inside.
    touched = TouchedKeySet(3, 1)
    assert touched.insert(torch.tensor([one, one])) == 0
    assert (len(touched), stolen(touched)) == (1, [one])
    assert (len(touched), stolen(touched)) == (0, [])
    assert touched.insert(torch.tensor([one, 5, 6, 7, 8])) == 4
    assert stolen(touched) == [8]


def test_duplicates_do_not_grow_the_set() -> None:
    touched = TouchedKeySet(10, 4)
    for _ in range(5):
        assert touched.insert(torch.arange(10)) == 0
    assert len(touched) == 10
    assert stolen(touched) == list(range(10))


class PlainSet:
    """The rule in Python: an insert that finds more than `capacity` ids clears first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.ids: set[int] = set()

    def insert(self, ids: list[int]) -> int:
        dropped = 0
        for i in ids:
            if len(self.ids) > self.capacity:
                dropped += len(self.ids)
                self.ids.clear()
            self.ids.add(i)
        return dropped


@pytest.mark.parametrize("concurrency_level", [1, 3, 1024])
@pytest.mark.parametrize("capacity", [1, 70, 3000, 100000])
def test_matches_the_rule(capacity: int, concurrency_level: int) -> None:
    """Batches are grouped inside; the dropped totals and the ids left must not show it."""
    touched, plain = TouchedKeySet(capacity, concurrency_level), PlainSet(capacity)
    draw = random.Random(capacity)
    for step in range(60):
        ids = [draw.randrange(-capacity, 3 * capacity) for _ in range(draw.choice([0, 1, 63, 64, 500, 2000]))]
        assert touched.insert(torch.tensor(ids, dtype=torch.int64)) == plain.insert(ids)
        assert len(touched) == len(plain.ids)
        if step % 17 == 16:
            assert stolen(touched) == sorted(plain.ids)
            plain.ids.clear()
    assert stolen(touched) == sorted(plain.ids)


def test_any_shape_and_layout() -> None:
    touched = TouchedKeySet(100, 1)
    ids = torch.arange(24).view(2, 3, 4)
    touched.insert(ids.transpose(0, 2)[::2])
    touched.insert(torch.tensor(77))
    touched.insert(torch.empty(0, 5, dtype=torch.int64))
    assert stolen(touched) == sorted({77, *ids.transpose(0, 2)[::2].flatten().tolist()})


def test_stolen_ids_are_ours_to_keep() -> None:
    touched = TouchedKeySet(100, 1)
    touched.insert(torch.tensor([5]))
    ids = touched.steal()
    del touched
    ids += 1
    assert ids.tolist() == [6] and ids.dtype == torch.int64


def test_threads() -> None:
    touched = TouchedKeySet(1 << 20, 64)
    threads = [
        threading.Thread(target=lambda t=t: touched.insert(torch.arange(t * 40000, (t + 1) * 50000))) for t in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stolen(touched) == list(range(200000))


def test_names_and_sharing() -> None:
    one, other = TouchedKeySet(10, 1, name_suffix="_a"), TouchedKeySet(10, 1, name_suffix="_a")
    assert one.name == "MonolithTouchedKeySet_a"
    assert create_touched_key_set(10, 1).name == "MonolithTouchedKeySet"
    one.insert(torch.tensor([1]))
    assert len(other) == 0


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="capacity"):
        TouchedKeySet(0, 1)
    with pytest.raises(ValueError, match="-5"):
        TouchedKeySet(10, -5)
    with pytest.raises(ValueError, match="concurrency_level"):
        TouchedKeySet(10, 1 << 30)
    with pytest.raises(TypeError, match="int64"):
        TouchedKeySet(10, 1).insert(torch.ones(3))
