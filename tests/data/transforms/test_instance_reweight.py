"""How often events come, checked against the rules written for one event at a time."""

import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolith.data.transforms import InstanceReweight
from tests.data.transforms.events import check_in_a_chain, events

ORDER = (4, 2, 1)
WEIGHTS = {4: (5, 1), 2: (3, -1), 1: (1, -1), 7: (2, 1)}
TEXT = ",".join(f"{action}:{weight}:{label}" for action, (weight, label) in WEIGHTS.items())


def top(actions):
    """Priority from 1, and the action."""
    if not actions:
        return 2000, None
    listed = [action for action in ORDER if action in actions]
    return (ORDER.index(listed[0]) + 1, listed[0]) if listed else (1000, None)


def count(actions, method):
    if not actions:
        return 0
    counted = [action for action in actions if action not in ORDER or action == top(actions)[1]]
    total = 1
    for action in counted:
        if action in WEIGHTS:
            total = total + WEIGHTS[action][0] if method else total * WEIGHTS[action][0]
    return total


def expected(pre_actions, actions, label, method):
    """The number of copies and their label."""
    (pre, pre_top), (cur, cur_top) = top(pre_actions), top(actions)
    if pre <= cur:
        return (1 if pre == cur == 2000 else 0), label
    if cur_top in WEIGHTS:
        label = WEIGHTS[cur_top][1]
    pre_count, cur_count = count(pre_actions, method), count(actions, method)
    if pre_top not in WEIGHTS:
        return cur_count, label
    if WEIGHTS[pre_top][1] != label:
        return pre_count + cur_count, label
    return (pre_count - cur_count, -label) if pre_count > cur_count else (cur_count - pre_count, label)


ACTIONS = st.lists(st.sampled_from([1, 2, 4, 7, 9]), max_size=3)


@settings(max_examples=50)
@given(st.lists(st.tuples(ACTIONS, ACTIONS, st.sampled_from([-1.0, 1.0])), min_size=1, max_size=30), st.integers(0, 1))
def test_every_event_comes_as_often_as_the_rules_say(rows, method):
    batch = events(
        row=list(range(len(rows))),
        pre_actions=[list(row[0]) for row in rows],
        actions=[list(row[1]) for row in rows],
        label=[row[2] for row in rows],
    )
    changed = InstanceReweight("4,2,1", TEXT, method)(batch)
    wanted = [(i, *expected(*row, method)) for i, row in enumerate(rows)]
    assert changed.columns["row"].tolist() == [i for i, copies, _ in wanted for _ in range(copies)]
    assert changed.columns["label"].tolist() == [label for _, copies, label in wanted for _ in range(copies)]


def test_an_early_negative_is_taken_back():
    # Emitted three times as a negative (action 2), now a positive (action 4): 3 copies cancel, 5 count.
    batch = events(pre_actions=[[2]], actions=[[2, 4]], label=[-1.0])
    assert InstanceReweight("4,2,1", TEXT)(batch).columns["label"].tolist() == [1.0] * 8


def test_an_early_negative_that_stays_one_is_corrected():
    # Emitted once (action 1), should have been 3 (action 2): two more. The other way round, two positives cancel.
    batch = events(pre_actions=[[1]], actions=[[2]], label=[-1.0])
    assert InstanceReweight("2,1", "2:3:-1,1:1:-1")(batch).columns["label"].tolist() == [-1.0] * 2
    assert InstanceReweight("2,1", "2:1:-1,1:3:-1")(batch).columns["label"].tolist() == [1.0] * 2


def test_only_the_first_label_changes():
    batch = events(pre_actions=[[]], actions=[[4]], label=torch.tensor([[0.0, 7.0]]))
    assert InstanceReweight("4", "4:2:1")(batch).columns["label"].tolist() == [[1.0, 7.0]] * 2


def test_events_without_labels_are_dropped_and_logged(caplog):
    batch = events(row=[0, 1, 2], pre_actions=[[], [], []], actions=[[], [4], [4]], label=[[], [0.0], [0.0, 9.0]])
    with caplog.at_level(logging.ERROR):
        changed = InstanceReweight("4", "4:2:1")(batch)
    assert changed.columns["row"].tolist() == [1, 1, 2, 2]
    assert changed.columns["label"].to_list() == [[1.0], [1.0], [1.0, 9.0], [1.0, 9.0]]
    assert "1 events of batch" in caplog.text


@pytest.mark.parametrize("label", [[1.0, -1.0], [[1.0], [-1.0]], torch.ones(2, 3)])
def test_it_resumes_exactly(label):
    batch = events(pre_actions=[[2], [1]], actions=[[4], [2]], label=label)
    check_in_a_chain(InstanceReweight("4,2,1", TEXT), batch)


def test_settings_that_cannot_be_read_say_where():
    with pytest.raises(ValueError, match=r"not there before at character 4 of '1,2,1'"):
        InstanceReweight("1,2,1", "")
    with pytest.raises(ValueError, match="'action:weight:label' at character 6"):
        InstanceReweight("1", "1:2:1,2:3")
    with pytest.raises(ValueError, match="a weight from 0 on"):
        InstanceReweight("1", "1:-2:1")
    with pytest.raises(ValueError, match="no column 'pre_actions'"):
        InstanceReweight("1", "1:2:1")(events(actions=[[1]], label=[1.0]))
