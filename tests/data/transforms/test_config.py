"""Transforms as messages."""

import pytest

from monolith.data.transforms import (
    AddLabel,
    Compose,
    FilterByAction,
    FilterByFid,
    FilterByLabel,
    FilterByValue,
    LabelUpperBound,
    LogicalOr,
    as_proto,
    from_proto,
)
from monolith.protos.transform_config_pb2 import TransformConfig

CHAIN = Compose(
    [
        FilterByFid(has_fids=[1, 2**64 - 1], filter_fids=[3], select_fids=[4]),
        FilterByAction([5, 6]),
        LogicalOr(FilterByLabel([0.5, -1.0]), FilterByValue("req_time", "between", [10, 20])),
        FilterByValue("cid", "in", ["feed", "ads"], keep_empty=True),
        FilterByValue("sample_rate", "gt", 0.5),
        FilterByValue("uid", "not-in", operand_filepath="values.pb"),
        AddLabel("1,2:3:1.0;4::0.5", -1.0, 0.25),
    ]
)


def test_a_message_carries_all_settings():
    configs = as_proto(CHAIN).configs
    assert list(configs[0].basic_config.filter_by_fid.has_fids) == [1, 2**64 - 1]
    assert list(configs[1].basic_config.filter_by_action.has_actions) == [5, 6]
    assert list(configs[2].logical_or_config.x.filter_by_label.thresholds) == [0.5, -1.0]
    assert list(configs[2].logical_or_config.y.filter_by_value.int_operand) == [10, 20]
    assert list(configs[3].basic_config.filter_by_value.string_operand) == ["feed", "ads"]
    assert list(configs[4].basic_config.filter_by_value.float_operand) == [0.5]
    assert configs[5].basic_config.filter_by_value.operand_filepath == "values.pb"
    label = configs[6].basic_config.add_label
    assert [list(task.pos_actions) for task in label.task_label_configs] == [[1, 2], [4]]
    assert (label.task_label_configs[1].sample_rate, label.negative_value, label.new_sample_rate) == (0.5, -1.0, 0.25)


def test_transforms_come_back_from_a_message():
    message = as_proto(CHAIN)
    assert as_proto(from_proto(TransformConfig.FromString(message.SerializeToString()))) == message
    chain = from_proto(message, seed=7)
    assert [type(step) for step in chain.transforms] == [type(step) for step in CHAIN.transforms]
    assert chain.transforms[2] == CHAIN.transforms[2]
    added = chain.transforms[-1]
    assert isinstance(added, AddLabel) and added.seed == 7 and added.tasks == CHAIN.transforms[-1].tasks


def test_a_single_transform_and_nested_chains():
    assert len(as_proto(FilterByAction([1])).configs) == 1
    assert len(as_proto(Compose([Compose([FilterByAction([1])]), FilterByAction([2])])).configs) == 2


def test_what_a_message_cannot_carry():
    with pytest.raises(ValueError, match="not LabelUpperBound"):
        as_proto(LabelUpperBound([1.0]))
    with pytest.raises(ValueError, match="filter_equal"):
        as_proto(FilterByLabel([1.0], filter_equal=True))
    with pytest.raises(ValueError, match="has_fids, filter_fids and select_fids only"):
        as_proto(FilterByFid([1], req_time_min=5))
    message = TransformConfig()
    message.configs.add()
    with pytest.raises(ValueError, match="transform 0 of the message has no type"):
        from_proto(message)
