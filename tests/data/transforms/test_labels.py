"""Labels made from actions, channels and fields, and rescaled."""

import math

import pytest
import torch

from monolith.data import Batch
from monolith.data.transforms import (
    INVALID_LABEL,
    POSITIVE_LABEL,
    AddAction,
    AddLabel,
    Compose,
    FillMultiRankOutput,
    FilterByLabel,
    LabelNormalization,
    LabelUpperBound,
    MultiLabelGen,
    ScatterLabel,
    UseFieldAsLabel,
)
from monolith.data.transforms.functions import (
    add_action,
    add_label,
    fill_multi_rank_output,
    filter_by_label,
    label_normalization,
    label_upper_bound,
    multi_label_gen,
    scatter_label,
    use_field_as_label,
)
from tests.data.transforms.events import check_in_a_chain, column, events

NO = INVALID_LABEL


def labels(batch):
    found = batch.columns["label"]
    return found.tolist() if isinstance(found, torch.Tensor) else found.to_list()


def test_constants():
    assert POSITIVE_LABEL == 1.0
    assert torch.tensor(INVALID_LABEL, dtype=torch.float32).item() == -3.4028234663852886e38


ACTIONS = [[1, 2, 4], [1], [3, 4], [5]]


@pytest.mark.parametrize("seed", range(3))
def test_three_samples_and_half_of_the_fourth_survive(seed):
    # The published figure: 340 to 360 of 400.
    batches = [events(first=4 * i, actions=ACTIONS) for i in range(100)]
    labelled = [add_label(batch, "1,2:3:1.0;4::0.5", -1.0, 1.0, seed=seed) for batch in batches]
    counts = torch.stack([filter_by_label(batch, [-100.0, -100.0]) for batch in labelled]).sum(0)
    assert counts[:3].tolist() == [100, 100, 100]
    assert 30 <= int(counts[3]) <= 70  # 4 standard deviations; see the next test for the figure's own bounds


def test_the_published_bounds_hold_on_average():
    batch = events(actions=ACTIONS * 2500)
    survivors = int(filter_by_label(add_label(batch, "1,2:3:1.0;4::0.5", -1.0), [-100.0, -100.0]).sum())
    assert 340 <= survivors / 25 <= 360


def test_labels_of_actions():
    changed = add_label(events(actions=ACTIONS), "1,2:3:1.0;4::0.0", -1.0, 0.25)
    assert labels(changed) == [[1, 1], [1, pytest.approx(NO)], [-1, 1], [pytest.approx(NO), pytest.approx(NO)]]
    assert changed.columns["sample_rate"].tolist() == [0.25] * 4


def test_labels_are_appended_to_those_there_are():
    changed = add_label(events(actions=[[1], [9], [1]], label=[0.0, 2.0, -1.0]), "1::1.0")
    assert labels(changed) == [[pytest.approx(NO), 1], [2, 0], [pytest.approx(NO), 1]]
    changed = add_label(events(actions=[[1]], label=torch.tensor([[3.0, 0.0]])), "1::1.0;2::1.0")
    assert labels(changed) == [[3, 0, 1, 0]]  # only the first is looked at
    ragged = add_label(events(actions=[[1], [2]], label=[[3.0], [3.0]]), "1::1.0")
    assert labels(ragged) == [[3, 1], [3, 0]]


@pytest.mark.parametrize("form", [[1.0, 0.0, 1.0, 0.0], [[1.0]] * 4, torch.ones(4, 2)])
def test_added_labels_resume_exactly(form):
    check_in_a_chain(AddLabel("1,2:3:0.5;4::0.5", -1.0), events(actions=ACTIONS, label=column(form)))
    check_in_a_chain(AddLabel("1,2:3:0.5;4::0.5", -1.0), events(actions=ACTIONS))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("1,x:3:1.0", r"a whole number at character 2 of '1,x:3:1.0', got 'x'"),
        ("1:3", r"three parts.* at character 0 of '1:3'"),
        ("1::1.0;2:3:often", r"a number at character 11 of .*got 'often'"),
        ("1::1.5", r"a number from 0.0 to 1.0 at character 3"),
        ("", "at least one task"),
    ],
)
def test_a_config_that_cannot_be_read_says_where(config, message):
    with pytest.raises(ValueError, match=message):
        AddLabel(config)


def test_a_sample_rate_is_above_0_and_at_most_1():
    for rate in (0.0, 1.5):
        with pytest.raises(ValueError, match="new_sample_rate"):
            AddLabel("1::1", new_sample_rate=rate)


def test_events_that_differ_in_labels_are_refused():
    with pytest.raises(ValueError, match="AddLabel: events of batch .* have 1 to 2 labels"):
        add_label(events(actions=[[1], [1]], label=[[1.0], [1.0, 2.0]]), "1::1")


def test_the_label_moves_to_the_task_of_its_channel():
    # The published config: five labels, all INVALID but that of the sample's channel.
    batch = events(label=[1.0, 0.5, -1.0, 2.0], chnid=[100, 200, 300, 400])
    expected = torch.full((4, 5), NO)
    expected[0, 3], expected[1, 1], expected[2, 4] = 1.0, 0.5, -1.0
    changed = scatter_label(batch, "100:3,200:1,300:4")
    assert torch.equal(changed.columns["label"], expected)
    check_in_a_chain(ScatterLabel("100:3,200:1,300:4"), batch)
    with pytest.raises(ValueError, match="a task from 0 on at character 4"):
        ScatterLabel("100:-1")


def test_labels_of_heads_by_actions():
    batch = events(chnid=[7, 8, 7, 7, 9], actions=[[1, 2], [2], [5, 1], [], [1]])
    changed = multi_label_gen(batch, {"7": 0, "8": 2}, pos_actions=[1], neg_actions=[2], neg_label=-1.0, task_num=4)
    expected = torch.full((5, 4), NO)
    expected[0, 0], expected[1, 2] = 1.0, -1.0  # 5 comes first in the third, and is in neither list
    assert torch.equal(changed.columns["label"], expected)
    by_priority = multi_label_gen(batch, "7:0,8:2", pos_actions=[1], neg_actions=[2], action_priority="2,1")
    expected = torch.full((5, 3), NO)
    expected[0, 0], expected[1, 2], expected[2, 0] = 0.0, 0.0, 1.0
    assert torch.equal(by_priority.columns["label"], expected)
    check_in_a_chain(MultiLabelGen({"7": 0}, pos_actions=[1]), batch)


def test_labels_of_heads_by_name_and_own_label():
    batch = events(cid=[b"feed", b"ads", b"fee"], label=[0.5, 1.0, 2.0])
    changed = multi_label_gen(batch, {"ads": 0, "feed": 1}, head_field="cid", use_origin_label=True)
    expected = torch.full((3, 2), NO)
    expected[0, 1], expected[1, 0] = 0.5, 1.0
    assert torch.equal(changed.columns["label"], expected)
    with pytest.raises(ValueError, match="either use_origin_label=True or pos_actions"):
        MultiLabelGen({"a": 0})
    with pytest.raises(ValueError, match="task_num=1, but a head has task 1"):
        MultiLabelGen({"a": 1}, use_origin_label=True, task_num=1)


TWO = events(label=torch.tensor([[0.0, 1.0]] * 4), sample_rate=[1.0] * 4)


def test_published_figures_of_bounds_norms_and_fields():
    bounded = label_upper_bound(TWO, [0.5, 0.5])
    assert labels(bounded) == [[0, 0.5]] * 4
    assert labels(label_normalization(TWO, ["scale", "repow"], [0.5, 3])) == [[0, 8]] * 4
    assert labels(use_field_as_label(TWO, "sample_rate", False, 0)) == [[1, 1]] * 4
    assert labels(use_field_as_label(bounded, "sample_rate", True, 1.1)) == [[1, 1]] * 4
    assert labels(use_field_as_label(bounded, "sample_rate", True, 0.9)) == [[0, 0.5]] * 4


@pytest.mark.parametrize(
    ("method", "value", "formula"),
    [
        ("log", 1.0, lambda x, v: math.log(max(x + v, 0)) if x + v > 0 else -math.inf),
        ("scale", 0.5, lambda x, v: x / v),
        ("scale2int", 0.3, lambda x, v: int(x / v)),
        ("pow", 2.0, lambda x, v: (x + 1) ** v),
        ("repow", 0.5, lambda x, v: x**v if x > 0 else 0),
        ("scalelog", 2.0, lambda x, v: math.log(max(x / v + 1, 0)) if x / v + 1 > 0 else -math.inf),
    ],
)
def test_norms(method, value, formula):
    xs = [-5.0, -1.0, -0.25, 0.0, 0.25, 1.0, 7.0]
    found = labels(label_normalization(events(label=xs), [method], [value]))
    assert found == pytest.approx([formula(x, value) for x in xs], rel=1e-6)


def test_invalid_labels_stay_invalid():
    batch = events(label=torch.tensor([[NO, 1.0]]))
    for method in ("log", "scale", "scale2int", "pow", "repow", "scalelog"):
        assert labels(label_normalization(batch, [method], [0.5]))[0][0] == torch.tensor(NO).item()
    assert labels(label_upper_bound(batch, [0.5, 0.5]))[0][0] == torch.tensor(NO).item()


def test_label_steps_resume_exactly_and_say_what_they_need():
    chain = [LabelUpperBound([0.5, 0.5]), LabelNormalization(["scale"], [2.0]), UseFieldAsLabel("sample_rate")]
    check_in_a_chain(Compose(chain), TWO)
    check_in_a_chain(UseFieldAsLabel("sample_rate"), events(sample_rate=[1.0, 2.0]))
    with pytest.raises(ValueError, match="1 bounds for 2 labels"):
        label_upper_bound(TWO, [0.5])
    with pytest.raises(ValueError, match="methods are log, scale"):
        LabelNormalization(["sqrt"], [1.0])
    with pytest.raises(ValueError, match="2 norm_methods and 1 norm_values"):
        LabelNormalization(["log", "log"], [1.0])


def test_ranks():
    batch = events(is_draw=[0, 1, 0, 1], chnid=[0, 1, 2, 9], rank=[0, 17, 18, 99], label=[0.5] * 4)
    assert [row[1] for row in labels(fill_multi_rank_output(batch, enable_draw_as_rank=True))] == [0, 1, 0, 1]
    assert [row[1] for row in labels(fill_multi_rank_output(batch, enable_chnid_as_rank=True))] == [0, 1, 2, 2]
    ranked = labels(fill_multi_rank_output(batch, enable_lineid_rank_as_rank=True))
    assert ranked == [[0.5, 0], [0.5, 17], [0.5, 17], [0.5, 17]]
    check_in_a_chain(FillMultiRankOutput(enable_draw_as_rank=True, enable_chnid_as_rank=True), batch)
    with pytest.raises(ValueError, match="set one of"):
        FillMultiRankOutput()


def test_actions_are_appended_where_a_condition_holds():
    batch = events(actions=[[1], [], [2, 3]], req_time=[5, 6, 7])
    assert add_action(batch, "req_time", "ge", 6, 9).columns["actions"].to_list() == [[1], [9], [2, 3, 9]]
    assert add_action(batch, "req_time", "lt", 6, [8, 9]).columns["actions"].to_list() == [[1, 8, 9], [], [2, 3]]
    check_in_a_chain(AddAction("req_time", "in", [5, 7], 9), batch)


def test_a_chain_of_labels_and_filters():
    batch = events(actions=ACTIONS, label=[1.0, 0.0, 1.0, 0.0])
    check_in_a_chain(Compose([AddLabel("1::0.5;4::0.5"), FilterByLabel([-1.0, -1.0])]), batch)
    assert isinstance(Compose([])(batch), Batch)
