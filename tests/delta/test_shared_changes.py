"""Changes that are taken once for all targets of a sender: each target gets all of them, and later ones win."""

import random

import pytest
import torch

from monolith.delta import shared_changes
from monolith.delta.messages import DeltaContent
from monolith.delta.shared_changes import SharedChanges
from monolith.delta.taken_part import WHOLE_TARGET, TakenPart
from monolith.embedding.hash_shards import shards_of_ids
from monolith.errors import CorruptFrameError
from tests.delta.table_target import training_tables


def write(table, *ids):
    table.assign(torch.tensor(ids), torch.ones(len(ids), table.dim))


def taken(follower, table="uid"):
    changes = follower.take()[table]
    return sorted(changes.touched.tolist()), sorted(changes.erased.tolist()), changes.overflowed


def test_each_target_gets_what_changed_since_its_own_last_turn():
    tables = training_tables()
    shared = SharedChanges(tables.tables)
    first, second = shared.follow(), shared.follow()
    write(tables["uid"], 1, 2)
    assert taken(first) == ([1, 2], [], False)
    tables["uid"].erase(torch.tensor([2]))
    write(tables["uid"], 3)
    assert taken(first) == ([3], [2], False)
    assert taken(second) == ([1, 3], [2], False)
    assert taken(first) == taken(second) == ([], [], False)
    late = shared.follow()
    write(tables["uid"], 4)
    assert taken(late) == ([4], [], False)


def test_more_targets_than_a_table_has_places_for_trackers():
    tables = training_tables()
    shared = SharedChanges(tables.tables)
    followers = [shared.follow() for _ in range(20)]
    write(tables["uid"], 7)
    assert all(taken(one) == ([7], [], False) for one in followers)
    for one in followers:
        one.close()
    trackers = [tables["uid"].track_changes() for _ in range(6)]
    assert len(trackers) == 6, "all places are free again"


def test_what_is_given_back_comes_again_unless_something_newer_came():
    tables = training_tables()
    follower = SharedChanges(tables.tables).follow()
    write(tables["uid"], 1, 2, 3)
    changes = follower.take()
    tables["uid"].erase(torch.tensor([2]))
    follower.give_back(changes)
    assert taken(follower) == ([1, 3], [2], False)


def test_a_target_that_misses_too_much_gets_everything_once(monkeypatch):
    monkeypatch.setattr(shared_changes, "MAX_WAITING_IDS", 10)
    tables = training_tables()
    shared = SharedChanges(tables.tables)
    quick, slow = shared.follow(), shared.follow()
    for begin in range(0, 30, 6):
        write(tables["uid"], *range(begin, begin + 6))
        assert taken(quick) == ([*range(begin, begin + 6)], [], False)
    assert taken(slow) == ([], [], True)
    assert taken(slow) == ([], [], False)


def test_after_any_turns_every_target_has_the_rows_of_the_table():
    dice = random.Random(0)
    tables = training_tables()
    table = tables["uid"]
    shared = SharedChanges(tables.tables)
    followers = [shared.follow() for _ in range(3)]
    copies = [set() for _ in followers]
    for _ in range(500):
        ids = torch.tensor([dice.randrange(20) for _ in range(4)])
        if dice.random() < 0.5:
            table.assign(ids, torch.ones(4, table.dim))
        else:
            table.erase(ids)
        number = dice.randrange(3)
        changes = followers[number].take()
        if dice.random() < 0.3:
            followers[number].give_back(changes)
            continue
        copies[number] -= set(changes["uid"].erased.tolist())
        copies[number] |= set(changes["uid"].touched.tolist())
    present = {id_ for ids, _ in table.items() for id_ in ids.tolist()}
    for follower, copy in zip(followers, copies, strict=True):
        changes = follower.take()["uid"]
        assert copy - set(changes.erased.tolist()) | set(changes.touched.tolist()) == present


def test_a_target_takes_its_own_rows():
    ids = torch.arange(100)
    parts = [TakenPart((shard, 3), dense=False) for shard in range(3)]
    assert sorted(torch.cat([part.own(ids) for part in parts]).tolist()) == ids.tolist()
    assert (shards_of_ids(parts[1].own(ids), 3) == 1).all()
    content = DeltaContent({"uid": (ids.numpy(), torch.ones(100, 5).numpy())}, {"uid": ids.numpy()}, {"w": ids.numpy()})
    own = parts[1].of_content(content)
    assert own.num_rows == own.num_erased == len(parts[1].own(ids)) and not own.dense
    assert TakenPart(None).of_content(content).num_rows == 0 and TakenPart(None).of_content(content).dense
    assert WHOLE_TARGET.of_content(content) is content


@pytest.mark.parametrize(
    "said", [3, {}, {"dense": 1, "rows_of": None}, {"dense": True, "rows_of": [3, 3]}, {"dense": True, "rows_of": [0]}]
)
def test_an_answer_that_makes_no_sense_is_refused(said):
    with pytest.raises(CorruptFrameError, match="a target takes the rows of a shard or none"):
        TakenPart.of({"takes": said})
