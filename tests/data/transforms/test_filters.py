"""Which events filters keep."""

import pytest
import torch

from monolith.data.transforms import (
    Compose,
    FilterByAction,
    FilterByFid,
    FilterByLabel,
    FilterByValue,
    LogicalOr,
    NegativeSample,
    SpecialStrategy,
)
from monolith.data.transforms.byte_rows import compare_bytes, ends_with, starts_with
from monolith.data.transforms.functions import (
    filter_by_feature_value,
    filter_by_fids,
    filter_by_label,
    filter_by_value,
    negative_sample,
    special_strategy,
)
from monolith.errors import CorruptFileError
from monolith.protos.example_pb2 import FilterValues
from tests.data.transforms.events import check_in_a_chain, column, events, kept


def fid(slot, signature):
    return (slot << 48) | signature


IDS = events(
    uid=[[fid(1, 1)], [fid(1, 2)], [fid(1, 1), fid(1, 3)], []],
    item=[[fid(2, 7)], [], [fid(2, 8)], [fid(2, 7)]],
    actions=[[1, 2], [], [3], [2]],
    req_time=[10, 20, 30, 40],
)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"has_fids": [fid(1, 1)]}, [0, 2]),
        ({"has_fids": [fid(1, 2), fid(2, 7)]}, [0, 1, 3]),
        ({"filter_fids": [fid(2, 7)]}, [1, 2]),
        ({"select_fids": [fid(1, 1), fid(2, 7)]}, [0]),
        ({"select_slots": [1, 2]}, [0, 2]),
        ({"has_actions": [2, 9]}, [0, 3]),
        ({"req_time_min": 20}, [1, 2, 3]),
        ({"has_fids": [fid(1, 1)], "filter_fids": [fid(1, 3)]}, [0]),
        ({"has_actions": [2], "select_slots": [1]}, [0]),
    ],
)
def test_ids(conditions, expected):
    assert kept(FilterByFid(**conditions).mask(IDS)) == expected
    assert kept(filter_by_fids(IDS, **conditions)) == expected
    if expected:
        check_in_a_chain(FilterByFid(**conditions), IDS)


def test_ids_may_be_written_unsigned():
    high = events(uid=column([[-1], [5]]))
    assert kept(FilterByFid(has_fids=[2**64 - 1]).mask(high)) == [0]
    v1 = events(uid=column([[(1023 << 54) - (1 << 64)], [3 << 54]]))
    assert kept(FilterByFid(select_slots=[1023], fid_version=1).mask(v1)) == [0]
    with pytest.raises(ValueError, match="slots are 0 to 1023"):
        FilterByFid(select_slots=[1024], fid_version=1)


def test_numbers_of_actions_are_no_ids():
    assert kept(FilterByFid(has_fids=[2]).mask(IDS)) == []
    assert kept(FilterByFid(has_fids=[2], columns=["actions"]).mask(IDS)) == [0, 3]


def test_actions():
    assert kept(FilterByAction([3, 1]).mask(IDS)) == [0, 2]
    check_in_a_chain(FilterByAction([3, 1]), IDS)
    with pytest.raises(ValueError, match="empty"):
        FilterByAction([])


def test_a_missing_column_is_named_with_those_there_are():
    with pytest.raises(ValueError, match=r"FilterByAction: there is no column 'actions' .* it has uid"):
        FilterByAction([1]).mask(events(uid=[[1]]))
    with pytest.raises(ValueError, match="no column 'req_time'"):
        check_in_a_chain(FilterByFid(req_time_min=1), events(uid=[[1]]))


LABELS = events(label=torch.tensor([[0.0, 1.0], [0.0, 1.5], [-1.0, 0.5], [0.5, 0.0]]))


def test_labels():
    # An equal label is enough, unless filter_equal.
    assert kept(filter_by_label(LABELS, [0, 1])) == [0, 1, 3]
    assert kept(filter_by_label(LABELS, [0, 1], filter_equal=True)) == [1, 3]
    check_in_a_chain(FilterByLabel([0, 1]), LABELS)


def test_events_with_too_few_labels_are_dropped():
    assert kept(FilterByLabel([0, 0]).mask(events(label=[[5.0], [5.0, 5.0], [], [5.0, 5.0, 5.0]]))) == [1, 3]
    assert kept(FilterByLabel([0, 0]).mask(events(label=[5.0, 5.0]))) == []


def test_labels_must_be_float32():
    with pytest.raises(TypeError, match="FilterByLabel: column 'label' .* got int64"):
        FilterByLabel([0]).mask(events(label=[1, 2]))


NUMBERS = [-3, 0, 1, 2, 2, 7]
OPERATORS = {
    "gt": lambda x, a: x > a,
    "ge": lambda x, a: x >= a,
    "eq": lambda x, a: x == a,
    "lt": lambda x, a: x < a,
    "le": lambda x, a: x <= a,
    "neq": lambda x, a: x != a,
}


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("values", [NUMBERS, [x + 0.1 for x in NUMBERS], [b"", b"a", b"ab", b"abc", b"b", b"\xff"]])
def test_comparisons(op, values):
    for operand in {values[0], values[3], values[-1]}:
        expected = [i for i, value in enumerate(values) if OPERATORS[op](value, operand)]
        assert kept(filter_by_value(events(x=values), "x", op, operand)) == expected
        assert kept(filter_by_value(events(x=values), "x", op, [operand])) == expected


def test_between_takes_its_begin_and_leaves_its_end():
    assert kept(filter_by_value(events(x=[1]), "x", "between", [0, 1])) == []
    assert kept(filter_by_value(events(x=[1]), "x", "between", [1, 2])) == [0]
    assert kept(filter_by_value(events(x=[b"a", b"b", b"bb", b"c"]), "x", "between", ["b", "c"])) == [1, 2]


def test_membership():
    assert kept(filter_by_value(events(x=NUMBERS), "x", "in", [2, -3])) == [0, 3, 4]
    assert kept(filter_by_value(events(x=NUMBERS), "x", "not-in", [2, -3])) == [1, 2, 5]
    assert kept(filter_by_value(events(x=[0.1, 0.2]), "x", "in", [0.1])) == [0]
    assert kept(filter_by_value(events(x=[b"a", b"ab"]), "x", "not-in", ["a"])) == [1]


def test_lists_need_no_order():
    lists = events(x=[[3, 1, 2], [2, 9], [5], []])
    for keep_empty in (False, True):
        empty = [3] if keep_empty else []
        assert kept(filter_by_value(lists, "x", "all", [2, 1, 2], keep_empty)) == [0, *empty]
        assert kept(filter_by_value(lists, "x", "any", [2, 7], keep_empty)) == [0, 1, *empty]
        assert kept(filter_by_value(lists, "x", "diff", [2, 7], keep_empty)) == [2, *empty]
        assert kept(filter_by_value(lists, "x", "gt", 3, keep_empty)) == [2, *empty]


def test_ends_of_strings():
    names = events(x=[b"iphone", b"ipad", b"", b"phone", b"e"])
    assert kept(filter_by_value(names, "x", "startswith", ["ip", "e"])) == [0, 1, 4]
    assert kept(filter_by_value(names, "x", "endswith", [b"phone"])) == [0, 3]


def test_strings_compare_as_bytes_do():
    texts = [b"", b"a", b"ab", b"abc", b"\x00", b"b\xff", b"a\x00"]
    rows = column(texts)
    for operand in texts:
        assert compare_bytes(rows, operand).tolist() == [(text > operand) - (text < operand) for text in texts]
        assert starts_with(rows, operand).tolist() == [text.startswith(operand) for text in texts]
        assert ends_with(rows, operand).tolist() == [text.endswith(operand) for text in texts]


def test_operands_from_a_file(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(FilterValues(int64_list={"value": [2, 7]}).SerializeToString())
    step = FilterByValue("x", "in", operand_filepath=str(path))
    assert kept(step.mask(events(x=NUMBERS))) == [3, 4, 5]
    check_in_a_chain(step, events(x=NUMBERS))
    with pytest.raises(TypeError, match="is bytes, the operand 2 is not"):
        step.mask(events(x=[b"a"]))
    path.write_bytes(b"\xff\xff")
    with pytest.raises(CorruptFileError, match="FilterValues"):
        FilterByValue("x", "in", operand_filepath=str(path)).mask(events(x=NUMBERS))
    path.write_bytes(b"")
    with pytest.raises(CorruptFileError, match="without values"):
        FilterByValue("x", "not-in", operand_filepath=str(path)).mask(events(x=NUMBERS))


def test_what_a_condition_must_be():
    with pytest.raises(ValueError, match="op must be one of gt, ge"):
        FilterByValue("x", "above", 1)
    with pytest.raises(ValueError, match=r"takes 2 operand\(s\), got \[1\]"):
        FilterByValue("x", "between", 1)
    with pytest.raises(ValueError, match="in and not-in only"):
        FilterByValue("x", "gt", operand_filepath="file")
    with pytest.raises(TypeError, match="the operand 1.5 is not"):
        filter_by_value(events(x=NUMBERS), "x", "gt", 1.5)
    with pytest.raises(TypeError, match="needs lists of int64"):
        filter_by_value(events(x=NUMBERS), "x", "any", 1)
    with pytest.raises(TypeError, match="needs bytes"):
        filter_by_value(events(x=NUMBERS), "x", "startswith", "a")


def test_features_say_their_type():
    assert kept(filter_by_feature_value(events(x=[[0.5], [2.5]]), "x", "gt", 1.0, "float")) == [1]
    with pytest.raises(TypeError, match="field_type is 'int64'"):
        filter_by_feature_value(events(x=[[0.5]]), "x", "gt", 1, "int64")


def test_either_of_two_filters_and_one_after_the_other():
    either = LogicalOr(FilterByFid(has_fids=[fid(1, 2)]), FilterByAction([3]))
    assert kept(either.mask(IDS)) == [1, 2]
    chain = Compose([either, FilterByFid(req_time_min=30)])
    assert chain(IDS).columns["req_time"].tolist() == [30]
    check_in_a_chain(chain, IDS)
    with pytest.raises(TypeError, match="basic filters"):
        LogicalOr(either, FilterByAction([3]))
    with pytest.raises(TypeError, match="takes transforms"):
        Compose([lambda batch: batch])


MANY = 4000


def test_a_share_of_the_negatives_is_dropped():
    labels = torch.arange(MANY) % 2 * 2.0 - 1.0
    batch = events(label=labels)
    mask = negative_sample(batch, 0.25)
    assert mask[labels > 0].all()
    assert 1400 < int(mask[labels < 0].sum()) < 1600  # 1500 of 2000; 5 standard deviations are 97
    assert torch.equal(mask, negative_sample(batch, 0.25)) and not torch.equal(
        mask, negative_sample(batch, 0.25, seed=1)
    )
    assert negative_sample(batch, 0.0).all() and not negative_sample(batch, 1.0)[labels < 0].any()
    check_in_a_chain(NegativeSample(0.5), events(label=[-1.0] * 9 + [1.0]))


def test_actions_have_rates_of_their_own():
    batch = events(label=[-1.0] * 4, actions=[[1, 2], [2], [3], []])
    mask = negative_sample(batch, 0.0, action_priority="2,1", per_action_drop_rate="2:1.0,1:0.0,3:1.0")
    assert mask.tolist() == [False, False, True, True]  # 3 has no priority: the rate of all others
    with pytest.raises(ValueError, match="needs action_priority"):
        NegativeSample(0.5, per_action_drop_rate="1:0.5")
    with pytest.raises(ValueError, match="from 0.0 to 1.0 at character 2 of '1:1.5'"):
        NegativeSample(0.5, action_priority="1", per_action_drop_rate="1:1.5")


def test_strategies():
    batch = events(special_strategies=[[1], [2, 1], [3], [9], []], label=[0.0] * 5, row=[0, 1, 2, 3, 4])
    changed = special_strategy(batch, [1, 2, 3], "1:1.0:5,2:0.0,3:0")
    assert changed.columns["row"].tolist() == [0, 1, 4] and changed.columns["label"].tolist() == [5.0, 5.0, 0.0]
    assert special_strategy(batch, [2, 1, 3], "2:0.0", False).columns["row"].tolist() == [0, 2]
    check_in_a_chain(SpecialStrategy([1, 2], "1:0.5:2"), batch)
    with pytest.raises(ValueError, match="'strategy:rate'"):
        SpecialStrategy([1], "1")


def test_strategies_keep_their_share():
    batch = events(special_strategies=[[1]] * MANY)
    assert 900 < len(special_strategy(batch, [1], "1:0.25")) < 1100  # 5 standard deviations are 137


def test_steps_draw_for_themselves():
    batch = events(special_strategies=[[1]] * MANY, label=[-1.0] * MANY)
    strategies = SpecialStrategy([1], "1:0.5").mask(batch)
    both = strategies & ~NegativeSample(0.5).mask(batch)
    assert 800 < int(both.sum()) < 1200  # independent: a quarter
