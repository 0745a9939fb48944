"""Iterables and data loaders: positions are counts, restoring reads past."""

import json

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from monolith.data import OffsetError, Schema, assert_resume_is_exact
from monolith.data.in_memory import DataLoaderSource, IterableSource


def records():
    return ({"uid": i, "tags": [i] * (i % 3), "price": i / 2, "query": f"q{i}"} for i in range(11))


def batches():
    return [{"uid": torch.arange(i), "dense": torch.full((i, 2), float(i))} for i in (3, 1, 2, 2, 3)]


ITERABLES = {
    "records": lambda: IterableSource(records, batch_size=3),
    "batches": lambda: IterableSource(batches),
    "loader": lambda: DataLoaderSource(shuffling_loader(), names=["uid"]),
    "stateful": lambda: DataLoaderSource(StatefulLoader()),
}


class StatefulLoader:
    """What torchdata's StatefulDataLoader promises: it goes on where a state was taken, else from the beginning."""

    def __init__(self):
        self._next, self._is_restored, self.num_read = 0, False, 0

    def __iter__(self):
        self._next = self._next if self._is_restored else 0
        self._is_restored = False
        while self._next < 5:
            self._next += 1
            self.num_read += 1
            yield {"uid": torch.tensor([self._next * 10])}

    def state_dict(self):
        return {"next": self._next, "rng": torch.arange(3, dtype=torch.uint8), 3: (1, b"x")}

    def load_state_dict(self, state):
        assert state[3] == (1, b"x") and state["rng"].equal(torch.arange(3, dtype=torch.uint8))
        self._next, self._is_restored = state["next"], True


def shuffling_loader():
    generator = torch.Generator().manual_seed(3)
    return DataLoader(TensorDataset(torch.arange(11)), batch_size=3, shuffle=True, generator=generator)


@pytest.fixture(params=ITERABLES)
def make(request):
    return ITERABLES[request.param]


def test_resuming_is_exact(make):
    assert_resume_is_exact(make)
    assert_resume_is_exact(lambda: make().shard(2, 1))
    assert_resume_is_exact(lambda: make().shard(2, 0).shard(2, 1))


def test_shards_share_nothing_and_are_the_whole(make):
    # A source for each part, as each process has its own.
    parts = [[batch.first for batch in make().shard(2, i).shard(2, j)] for i in range(2) for j in range(2)]
    assert sorted(sum(parts, [])) == [batch.first for batch in make()]


def test_a_broken_off_iteration_goes_on(make):
    source = make()
    first = next(iter(source))
    assert [first.first, *(batch.first for batch in source)] == [batch.first for batch in make()]
    assert list(source) == []


def test_restoring_the_same_source_repeats_it(make):
    source = make()
    start = json.loads(json.dumps(source.state()))
    once = [batch.columns["uid"].tolist() for batch in source]
    source.restore(start)
    assert [batch.columns["uid"].tolist() for batch in source] == once


def test_records_become_batches():
    source = IterableSource(records, batch_size=4)
    assert dict(source.schema) == {"uid": "int64", "tags": "int64[]", "price": "float32", "query": "bytes"}
    first, _, last = source
    assert first.columns["tags"].to_list() == [[], [1], [2, 2], []]
    assert last.columns["price"].tolist() == [4, 4.5, 5] and (last.first, last.last) == (8, 11)
    assert [len(batch) for batch in IterableSource(records, batch_size=4, drop_remainder=True)] == [4, 4]


def test_batches_stay_batches():
    source = IterableSource(batches)
    assert dict(source.schema) == {"uid": "int64", "dense": "float32[2]"}
    assert [(len(batch), batch.first, batch.last) for batch in source][:2] == [(3, 0, 1), (1, 1, 2)]


def test_items_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="items 2 to 3: .*record 1 of these has no 'b'"):
        list(IterableSource(lambda: [{"a": i, "b": 1} if i != 3 else {"a": 3} for i in range(4)], batch_size=2))
    with pytest.raises(ValueError, match="items 1 to 1: column 'a' cannot be read as 'int64'"):
        list(IterableSource(lambda: [{"a": 1}, {"a": 0.5}], batch_size=1))
    with pytest.raises(ValueError, match="items 0 to 0: .*must be dicts"):
        list(IterableSource(lambda: [1], schema=Schema.of(a="int64")))
    with pytest.raises(ValueError, match="items 0 to 0: .*differ in length|batch"):
        list(IterableSource(lambda: [{"a": [1], "b": [1, 2]}]))


def test_an_error_is_met_again():
    source = IterableSource(lambda: [{"a": 1}, {"a": "x"}, {"a": 3}], batch_size=1)
    iterator = iter(source)
    next(iterator)
    for _ in range(2):
        with pytest.raises(ValueError, match="items 1 to 1"):
            next(iter(source))
    assert source.state() == {"item": 1}


def test_iterables_that_cannot_be():
    with pytest.raises(TypeError, match="got generator.*lambda"):
        IterableSource(records())
    with pytest.raises(ValueError, match="no items"):
        IterableSource(list)
    with pytest.raises(ValueError, match="batch_size"):
        IterableSource(records, batch_size=0)
    source = IterableSource(records, batch_size=3)
    source.restore({"item": 12})
    with pytest.raises(OffsetError, match="item 12, there are 11 items"):
        list(source)
    for state in ({}, {"item": -1}, {"item": 0, "loader": 1}):
        with pytest.raises(ValueError, match="the state of IterableSource"):
            source.restore(state)


def test_a_shuffle_that_cannot_be_repeated_is_refused():
    loader = DataLoader(TensorDataset(torch.arange(4)), shuffle=True)
    with pytest.raises(ValueError, match=r"generator=torch\.Generator\(\)"):
        DataLoaderSource(loader, names=["uid"])


def test_loaders_of_tuples_need_names():
    loader = DataLoader(TensorDataset(torch.arange(4), torch.ones(4)), batch_size=2)
    for names in (None, ["uid"]):
        with pytest.raises(ValueError, match="names=; got 2 parts"):
            DataLoaderSource(loader, names=names)
    schema = DataLoaderSource(loader, names=["uid", "label"]).schema
    assert dict(schema) == {"uid": "int64", "label": "float32"}


class Counting(IterableDataset):
    def __iter__(self):
        return iter([{"uid": i, "query": f"q{i}"} for i in range(5)])


def test_loaders_of_dicts():
    source = DataLoaderSource(DataLoader(Counting(), batch_size=2))
    assert dict(source.schema) == {"uid": "int64", "query": "bytes"}
    assert [batch.columns["uid"].tolist() for batch in source] == [[0, 1], [2, 3], [4]]
    assert_resume_is_exact(lambda: DataLoaderSource(DataLoader(Counting(), batch_size=2)))


def test_a_loader_with_a_state_is_not_read_past():
    source = DataLoaderSource(StatefulLoader())
    iterator = iter(source)
    for _ in range(3):
        next(iterator)
    state = json.loads(json.dumps(source.state()))
    loader = StatefulLoader()
    resumed = DataLoaderSource(loader, source.schema)
    resumed.restore(state)
    assert [batch.first for batch in resumed] == [3, 4] and loader.num_read == 2
    with pytest.raises(ValueError, match="has no state of its own"):
        DataLoaderSource(shuffling_loader(), names=["uid"]).restore(state)
