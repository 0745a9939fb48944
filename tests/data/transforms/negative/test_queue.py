"""The queue of one channel, against one that takes items one by one."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolith.data.transforms.negative import ItemPool, create_item_pool, item_pool_random_fill
from monolith.data.transforms.negative.channel_queue import ChannelQueue
from monolith.tensors import Ragged


def rows_for(gids, version):
    return {"ids": Ragged.from_lists([[gid * 10, version] for gid in gids], torch.int64)}


class OneByOne:
    """Items in a dictionary that remembers its order: gid -> [features, how often it came]."""

    def __init__(self, max_items):
        self.items = OrderedDict()
        self.max_items = max_items
        self.num_ever = 0

    def push(self, gid, features):
        if gid in self.items:
            self.items[gid][1] += 1
            return
        self.items[gid] = [features, 1]
        self.num_ever += 1
        if len(self.items) > self.max_items:
            self.items.popitem(last=False)


@settings(max_examples=40)
@given(st.integers(1, 6), st.lists(st.lists(st.integers(0, 8), max_size=12), max_size=6))
def test_batches_of_pushes_are_pushes_one_by_one(max_items, batches):
    queue, slow = ChannelQueue(max_items), OneByOne(max_items)
    for version, gids in enumerate(batches):
        timeline = queue.push(np.array(gids, np.int64), rows_for(gids, version))
        for place, gid in enumerate(gids):
            slow.push(gid, [gid * 10, version])
            assert timeline.ends[place] - timeline.begins[place] == len(slow.items)
            numbers = np.arange(timeline.begins[place], timeline.ends[place])
            assert queue.gids[numbers - queue.begin].tolist() == list(slow.items)
            assert queue.gather(numbers)["ids"].to_list() == [features for features, _ in slow.items.values()]
            assert timeline.ends[place] == slow.num_ever
        queue.drop_old()
        assert queue.gids.tolist() == list(slow.items) and len(queue) == len(slow.items)
        assert queue.origin_counts.tolist() == [count for _, count in slow.items.values()]
        if len(queue):
            assert queue.features["ids"].num_rows == len(queue)


def test_draws_are_counted_in_order():
    queue = ChannelQueue(3)
    queue.push(np.array([7, 8, 9]), rows_for([7, 8, 9], 0))
    assert queue.count_samples(np.array([1, 0, 1, 1, 2])).tolist() == [1, 1, 2, 3, 1]
    assert queue.count_samples(np.array([1, 2])).tolist() == [4, 2]
    queue.push(np.array([5]), rows_for([5], 0))
    queue.drop_old()
    assert queue.sample_counts.tolist() == [4, 2, 0]


def test_a_pool_comes_back_from_its_state():
    pool = ItemPool(0, 5)
    for channel in (3, -4):
        pool.channel(channel).push(np.array([1, 2, 3]), rows_for([1, 2, 3], 0))
        pool.channel(channel).count_samples(np.array([1, 1]))
    again = pool.new()
    again.restore(pool.state())
    assert again.state() == pool.state() and list(again.channels) == [3, -4]
    assert again.channel(3).push(np.array([2, 9]), rows_for([2, 9], 1)).ends.tolist() == [3, 4]


def test_arrays_of_a_state_are_little_endian():
    pool = ItemPool(0, 5)
    pool.channel(3).push(np.array([258]), {})
    assert pool.state()["channels"][0]["gids"] == {"dtype": "int64", "data": "AgEAAAAAAAA="}


@pytest.mark.parametrize(
    "change",
    [
        lambda channel: channel.pop("gids"),
        lambda channel: channel.update(gids={"dtype": "int64", "data": "no base64"}),
        lambda channel: channel.update(gids={"dtype": "int64", "data": "AAA="}),
        lambda channel: channel.update(gids={"dtype": "object", "data": ""}),
        lambda channel: channel.update(gids={"dtype": "int64", "data": ""}),
        lambda channel: channel.update(channel="3"),
        lambda channel: channel["features"].update(ids={"values": 1}),
    ],
)
def test_a_state_that_is_none_is_refused_and_changes_nothing(change):
    pool = ItemPool(0, 5)
    pool.channel(3).push(np.array([1, 2]), rows_for([1, 2], 0))
    state = pool.state()
    change(state["channels"][0])
    before = pool.state()
    with pytest.raises(ValueError):  # noqa: PT011 - each says something else
        pool.restore(state)
    assert pool.state() == before


def test_other_features_need_another_pool():
    queue = ChannelQueue(5)
    queue.push(np.array([1]), {"a": Ragged.from_lists([[1]])})
    with pytest.raises(ValueError, match="items come with the features b, those of the pool have a"):
        queue.push(np.array([2]), {"b": Ragged.from_lists([[1]])})


def test_sizes_of_a_pool():
    with pytest.raises(ValueError, match="max_item_num_per_channel"):
        create_item_pool(0, 0)
    pool = create_item_pool(10, 50)
    item_pool_random_fill(pool, 80, seed=1)
    assert len(pool) == 50 and list(pool.channels) == [3]
