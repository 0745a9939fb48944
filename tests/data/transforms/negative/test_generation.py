"""Negatives: which are made, of what, and that a stop and a resume change nothing."""

from dataclasses import replace

import pytest
import torch

from monolith.data import Batch, Pipeline, Schema, assert_resume_is_exact
from monolith.data.transforms.negative import ItemPool, NegativeGen, NegativeGenConfig
from monolith.tensors import Ragged
from tests.data.batch_list import BatchList

SCHEMA = Schema.of(
    user="int64[]",
    item="int64[]",
    price="float32",
    chnid="int64[]",
    label="float32",
    item_id="int64",
    actions="int64[]",
)
SMALL = NegativeGenConfig(neg_num=2, item_features=["item", "price"], start_num=0)


def made(labels, *, first=0, items=None, channels=None, actions=None):
    """Events of users 1000, 1001, ...; an item's features follow from its number."""
    count = len(labels)
    items = items if items is not None else list(range(first + 1, first + count + 1))
    return Batch(
        {
            "user": Ragged.from_lists([[1000 + first + i] for i in range(count)]),
            "item": Ragged.from_lists([[item * 10] * (item % 3) for item in items], torch.int64),
            "price": torch.tensor(items) / 4,
            "chnid": Ragged.from_lists(channels or [[5]] * count, torch.int64),
            "label": torch.tensor([float(label) for label in labels]),
            "item_id": torch.tensor(items),
            "actions": Ragged.from_lists(actions or [[i] for i in range(count)], torch.int64),
        },
        first=first,
        last=first + count,
    )


def run(config, *batches, pool=None):
    return list(NegativeGen(BatchList(batches, SCHEMA), config, pool))


def column(batch, name):
    values = batch.columns[name]
    return values.to_list() if isinstance(values, Ragged) else values.tolist()


def check_items(batch):
    """The item's columns must belong to the item named."""
    for item, ids, price in zip(*(column(batch, name) for name in ("item_id", "item", "price")), strict=True):
        assert ids == [item * 10] * (item % 3) and price == item / 4


def test_negatives_come_before_their_positive():
    (batch,) = run(SMALL, made([1, -1, 1]))
    assert column(batch, "label") == [-1, -1, 1, -1, -1, -1, 1]
    assert column(batch, "user") == [[1000]] * 3 + [[1001]] + [[1002]] * 3
    items = column(batch, "item_id")
    assert items[:3] == [1, 1, 1] and items[3] == 2  # only the first positive's own item is there yet
    assert set(items[4:6]) <= {1, 3} and items[6] == 3  # negatives do not enter the pool
    check_items(batch)
    assert (batch.first, batch.last) == (0, 3)


def test_nothing_is_drawn_from_a_pool_that_is_too_small():
    config = replace(SMALL, start_num=2)
    batches = run(config, made([1, 1, 1, 1]))
    assert column(batches[0], "label") == [1, 1, -1, -1, 1, -1, -1, 1]  # more than two items from the third on


def test_items_are_drawn_evenly():
    pool = ItemPool(0, 100)
    run(SMALL, made([1] * 50), pool=pool)
    batch = run(replace(SMALL, neg_num=5000, seed=3), made([1], items=[9]), pool=pool)[0]
    counts = torch.bincount(batch.columns["item_id"][:-1], minlength=51)[1:]
    assert int(counts.sum()) == 5000 and int(counts.min()) > 50 and int(counts.max()) < 150  # 100 each, deviation 10
    check_items(batch)


def test_every_event_draws_from_the_pool_of_its_time():
    pool = ItemPool(0, 100)
    run(SMALL, made([1] * 50), pool=pool)
    config = replace(SMALL, neg_num=20, seed=3)
    batches = run(config, *[made([1] * 50, first=i * 50) for i in range(4)], pool=pool)
    early = [int((batch.columns["item_id"][batch.columns["label"] == -1] <= 50).sum()) for batch in batches]
    # The first 50 items are all there is; then 50 of 51 to 100; then leave one by one; then are gone.
    growing = sum(20 * 50 / (50 + k) for k in range(1, 51))
    leaving = sum(20 * (50 - k) / 100 for k in range(1, 51))
    assert early[0] == 1000 and early[3] == 0
    assert abs(early[1] - growing) < 80 and abs(early[2] - leaving) < 70  # five standard deviations


def test_items_leave_the_oldest_first():
    pool = ItemPool(0, 3)
    run(SMALL, made([1] * 5), made([1], first=5, items=[4]), pool=pool)
    assert pool.channel(3).gids.tolist() == [3, 4, 5]
    assert pool.channel(3).origin_counts.tolist() == [1, 2, 1]


def test_draws_for_early_events_of_a_batch_find_items_that_later_ones_drive_out():
    batch = run(replace(SMALL, neg_num=50, max_item_num=2), made([1, 1, 1, 1]))[0]
    drawn = {}
    for user, item, label in zip(*(column(batch, name) for name in ("user", "item_id", "label")), strict=True):
        if label == -1:
            drawn.setdefault(user[0], set()).add(item)
    assert drawn == {1000: {1}, 1001: {1, 2}, 1002: {2, 3}, 1003: {3, 4}}
    check_items(batch)


def test_channels_have_items_of_their_own():
    config = replace(SMALL, per_channel=True, channel_feature="chnid", neg_num=30)
    batch = run(config, made([1, 1, 1, 1, 1], channels=[[7], [8], [7], [0], []]))[0]
    drawn = {}
    for user, item, label in zip(*(column(batch, name) for name in ("user", "item_id", "label")), strict=True):
        if label == -1:
            drawn.setdefault(user[0], set()).add(item)
    assert drawn == {1000: {1}, 1001: {2}, 1002: {1, 3}, 1004: {5}}  # channel 0 has no negatives


def test_easy_negatives_come_from_any_channel():
    config = replace(SMALL, per_channel=True, channel_feature="chnid", neg_num=400)
    first = made([1] * 4, channels=[[7], [7], [7], [8]])
    second = made([1], first=4, channels=[[8]])
    for ratio, bounds in ((0.0, (0, 0)), (0.5, (100, 200)), (1.0, (240, 360))):
        batch = run(replace(config, easy_hard_ratio=ratio), first, second)[1]
        others = sum(item in (1, 2, 3) for item in column(batch, "item_id"))
        assert bounds[0] <= others <= bounds[1]  # 3 of 4 items are in channel 7: 0, 150 and 300 of 400


def test_a_draw_that_finds_too_few_items_is_the_last_of_its_positive():
    config = replace(
        SMALL,
        per_channel=True,
        channel_feature="chnid",
        neg_num=400,
        easy_hard_ratio=0.5,
        start_num=2,
        cache_only_pos=True,
    )
    first = made([1] * 4, channels=[[7], [7], [7], [8]])
    batch = run(config, first, made([1], first=4, channels=[[7]]))[1]
    # One of eight draws goes to channel 8, which has one item: the first such ends it.
    assert 0 < len(batch) - 1 < 100


def test_weights():
    def weights(config):
        batch = run(config, made([1, -1, 1]))[0]
        return column(batch, "instance_weight")

    assert weights(replace(SMALL, real_neg_instance_weight=0.5, sampled_neg_instance_weight=0.25)) == [
        0.25, 0.25, 1, 0.5, 0.25, 0.25, 1
    ]  # fmt: skip
    assert weights(replace(SMALL, real_neg_instance_weight=0.0, unbias_sampled_neg=False)) == [1] * 7
    # One item, drawn for the first and second time: 1 + 2 * (1/1) / 1 and 1 + 2 * (1/1) / 2.
    assert weights(SMALL)[:3] == [3, 2, 1]


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_weights_follow_age_and_frequency(factor):
    config = replace(SMALL, neg_num=4, neg_sample_declay_factor=factor)
    batches = run(config, made([1] * 6), made([1] * 6, first=6))
    counts, queue = {}, []
    for batch in batches:
        rows = list(
            zip(*(column(batch, name) for name in ("user", "item_id", "label", "instance_weight")), strict=True)
        )
        for place, (user, item, label, weight) in enumerate(rows):
            own = next(other for other in rows[place:] if other[0] == user and other[2] == 1)[1]
            if own not in queue:
                queue.append(own)
            if label == -1:
                counts[item] = counts.get(item, 0) + 1
                age = (queue.index(item) + 1) / len(queue)
                assert weight == pytest.approx(1 + 4 * age**factor / counts[item], rel=1e-6)


def test_positives_by_action():
    config = replace(SMALL, positive_actions=[1], action_priority="2,1")
    batch = run(config, made([0] * 4, actions=[[3, 1], [1, 2], [], [1]]))[0]
    assert column(batch, "user") == [[1000]] * 3 + [[1001]] + [[1002]] + [[1003]] * 3


def test_which_originals_stay_and_what_actions_negatives_have():
    config = replace(SMALL, negative_action=77)
    batch = run(config, made([1, -1]))[0]
    assert column(batch, "actions") == [[77], [77], [0], [1]]
    assert column(run(replace(SMALL, throw_origin=True), made([1, -1]))[0], "label") == [-1, -1]
    assert column(run(replace(SMALL, throw_origin_neg=True), made([1, -1]))[0], "label") == [-1, -1, 1]
    assert run(replace(SMALL, throw_origin=True, start_num=5), made([1, -1])) == []


def test_which_items_enter_the_pool():
    def pooled(config, *batches):
        pool = ItemPool(0, 10_000)
        run(config, *batches, pool=pool)
        return pool.channel(3).gids.tolist()

    batch = made([1, -1, -1])
    assert pooled(SMALL, batch) == [1]
    assert pooled(replace(SMALL, cache_only_pos=False), batch) == [1, 2, 3]
    assert pooled(replace(SMALL, cache_negative_actions=[2]), batch) == [1, 3]
    many = made([-1] * 2000)
    share = len(pooled(replace(SMALL, cache_only_pos=False, origin_neg_in_pool_proba=0.25), many))
    assert 400 < share < 600  # 500 of 2000; 5 standard deviations are 97


def test_items_named_by_a_feature():
    pool = ItemPool(0, 100)
    config = replace(SMALL, index_feature="item")
    batch = run(config, made([1, 1, 1], items=[1, 2, 3]), pool=pool)[0]
    assert pool.channel(3).gids.tolist() == [10, 20, 3]  # item 3 has no ids: its own number
    assert column(batch, "item_id")[:3] == [10, 10, 1]


def test_several_labels():
    batch = made([1, -1])
    two = batch.with_columns({**batch.columns, "label": torch.tensor([[5.0, 1.0], [6.0, -1.0]])})
    source = BatchList([two], SCHEMA.with_columns(label="float32[2]"))
    (changed,) = NegativeGen(source, replace(SMALL, label_index=1, negative_label=0.0))
    assert column(changed, "label") == [[5, 0], [5, 0], [5, 1], [6, -1]]
    with pytest.raises(ValueError, match="label_index is 2, events of batch"):
        list(NegativeGen(BatchList([two], SCHEMA.with_columns(label="float32[2]")), replace(SMALL, label_index=2)))


STREAM = [
    made([1, -1, 1], channels=[[7], [8], [8]]),
    made([-1], first=3),
    made([1] * 6, first=4, items=[1, 2, 11, 12, 3, 1], channels=[[7], [8], [7], [8], [7], [8]]),
    made([1, 1], first=10, channels=[[8], [7]]),
]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"start_num": 2, "max_item_num": 4, "neg_num": 5},
        {"per_channel": True, "channel_feature": "chnid", "easy_hard_ratio": 0.5, "max_item_num": 3},
        {"cache_only_pos": False, "origin_neg_in_pool_proba": 0.5, "throw_origin": True},
        {"neg_num": 0},
    ],
)
def test_it_resumes_exactly(changes):
    def make():
        return Pipeline(BatchList(STREAM, SCHEMA)).negative_gen(replace(SMALL, **changes))

    assert make().schema == SCHEMA.with_columns(instance_weight="float32")
    assert_resume_is_exact(make)
    assert_resume_is_exact(lambda: make().shard(2, 1))


def test_a_run_depends_on_its_seed_alone():
    def drawn(seed):
        return [column(batch, "item_id") for batch in run(replace(SMALL, neg_num=9, seed=seed), *STREAM)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_parts_share_no_items():
    source = NegativeGen(BatchList(STREAM, SCHEMA), SMALL)
    parts = [source.shard(2, index) for index in range(2)]
    kept = [item for part in parts for batch in part for item in column(batch, "item_id")]
    assert set(kept) == {1, 2, 3, 4, 11, 12} and len(source.pool) == 0


def test_what_is_missing_is_said():
    source = BatchList([], SCHEMA.without("price"))
    with pytest.raises(ValueError, match="NegativeGen: there is no column 'price'"):
        NegativeGen(source, SMALL)
    with pytest.raises(ValueError, match="channel_feature"):
        replace(SMALL, per_channel=True)
    with pytest.raises(ValueError, match="no effect"):
        replace(SMALL, easy_hard_ratio=0.5)
    with pytest.raises(ValueError, match="a pool's state|the keys source, pool"):
        NegativeGen(BatchList(STREAM, SCHEMA), SMALL).restore({"position": 1})
