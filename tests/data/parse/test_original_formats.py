"""Example, ExampleBatch and Instance: the parsers and functions of the original."""

from typing import Any

import numpy as np
import pytest
import torch

from monolith.data.parse import (
    FLT_MIN,
    INVALID_LABEL,
    BadRecordError,
    ExampleBatchParser,
    ExampleParser,
    InstanceParser,
    RecordParser,
    parse_example_batch,
    parse_examples,
    parse_instances,
    records_of,
)
from monolith.protos import example_pb2, feature_pb2, instance_pb2, line_id_pb2
from monolith.tensors import Ragged
from tests.data.parse import read_by_protobuf as expected
from tests.data.parse.made_records import (
    fid_v1,
    fid_v2,
    random_example,
    random_example_batch,
    random_instance,
)


def rows_of(columns: dict[str, Any]) -> list[dict[str, Any]]:
    lists = {name: c.to_list() if isinstance(c, Ragged) else c.tolist() for name, c in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def parsed(parser: RecordParser, messages: list[Any]) -> list[dict[str, Any]]:
    return rows_of(parser(records_of([message.SerializeToString() for message in messages]))[0])


def test_invalid_label_is_the_lowest_float32() -> None:
    assert np.finfo(np.float32).min == np.float32(INVALID_LABEL) == INVALID_LABEL
    assert np.finfo(np.float32).tiny == np.float32(FLT_MIN) == FLT_MIN


def test_examples_equal_what_protobuf_reads() -> None:
    rng = np.random.default_rng(1)
    examples = [random_example(rng) for _ in range(300)]
    got = parsed(ExampleParser(expected.FEATURES, line_id=expected.LINE_ID), examples)
    assert got == [expected.example_row(example) for example in examples]


def test_example_batches_equal_what_protobuf_reads() -> None:
    rng = np.random.default_rng(2)
    batches = [random_example_batch(rng) for _ in range(60)]
    got = parsed(ExampleBatchParser(expected.FEATURES, line_id=expected.LINE_ID), batches)
    assert got == [row for batch in batches for row in expected.batch_rows(batch)]


def test_instances_equal_what_protobuf_reads() -> None:
    rng = np.random.default_rng(3)
    instances = [random_instance(rng) for _ in range(300)]
    parser = InstanceParser(expected.INSTANCE_FEATURES, slots=expected.SLOTS, line_id=expected.LINE_ID)
    assert parsed(parser, instances) == [expected.instance_row(instance) for instance in instances]


def example(**features: example_pb2.Feature) -> example_pb2.Example:
    return example_pb2.Example(
        named_feature=[example_pb2.NamedFeature(name=name, feature=feature) for name, feature in features.items()]
    )


def test_v1_ids_of_an_example_become_v2() -> None:
    """Slot 1023 and a payload of 54 bits: the top 6 bits of the payload are lost."""
    record = example(
        a=example_pb2.Feature(fid_v1_list=example_pb2.FidList(value=[fid_v1(1023, 2**54 - 1), fid_v1(3, 5)])),
        b=example_pb2.Feature(fid_v2_list=example_pb2.FidList(value=[fid_v2(32767, 2**48 - 1)])),
    )
    features = parse_examples([record.SerializeToString()], sparse_features=["a", "b", "c"])
    assert features["a"].to_list() == [[fid_v2(1023, 2**48 - 1), fid_v2(3, 5)]]
    assert features["b"].to_list() == [[2**63 - 1]]
    assert features["c"].to_list() == [[]]


def test_dense_features_labels_and_weights_of_examples() -> None:
    def floats(*values: float) -> example_pb2.Feature:
        return example_pb2.Feature(float_list=example_pb2.FloatList(value=values))

    records = [
        example(d=floats(1, 2, 3), one=floats(), t=example_pb2.Feature(bytes_list=example_pb2.BytesList(value=[b"x"]))),
        example(d=floats(1), one=floats(4, 5), n=example_pb2.Feature(int64_list=example_pb2.Int64List(value=[6, 7]))),
        example(label=floats(0.5), instance_weight=floats(3)),
    ]
    records[0].label.extend([1.0, 2.0, 3.0])
    records[0].instance_weight = -1.0
    records[1].label.append(1.0)
    records[1].instance_weight = 0.25
    records[2].label.append(9.0)
    features = parse_examples(
        [record.SerializeToString() for record in records],
        sparse_features=[],
        dense_features=["label", "instance_weight", "d", "one", "n", "t"],
        dense_feature_shapes=[2, 1, 2, 1, 2, 1],
        dense_feature_types=[torch.float32] * 4 + [torch.int64, "bytes"],
    )
    assert features["label"].tolist() == [[1.0, 2.0], [1.0, INVALID_LABEL], [0.5, INVALID_LABEL]]
    assert features["instance_weight"].tolist() == [[1.0], [0.25], [3.0]]
    assert features["d"].tolist() == [[1.0, 2.0], [1.0, 0.0], [0.0, 0.0]]
    assert features["one"].tolist() == [[FLT_MIN], [4.0], [0.0]]
    assert features["n"].tolist() == [[0, 0], [6, 7], [0, 0]]
    assert [bytes(row) for row in features["t"].to_list()] == [b"x", b"", b""]


def test_extra_features_of_examples() -> None:
    line = line_id_pb2.LineId(uid=2**63 + 1, req_time=5, actions=[1, 2, 3], user_id="ab")
    records = [example_pb2.Example(line_id=line).SerializeToString(), b""]
    features = parse_examples(
        records, [], extra_features=["uid", "req_time", "actions", "sample_rate", "user_id"],
        extra_feature_shapes=[1, 1, 2, 1, 1],
    )  # fmt: skip
    assert features["uid"].tolist() == [[-(2**63) + 1], [0]]
    assert features["req_time"].tolist() == [[5], [0]]
    assert features["actions"].tolist() == [[1, 2], [0, 0]]
    assert features["sample_rate"].tolist() == [[1.0], [1.0]]
    assert [bytes(row) for row in features["user_id"].to_list()] == [b"ab", b""]
    assert parse_examples(records, [], extra_features=["actions"])["actions"].to_list() == [[1, 2, 3], []]


def test_flat_ids_of_instances_are_split_by_slot() -> None:
    ids = [fid_v1(5, 1), fid_v1(700, 2), fid_v1(5, 3), fid_v1(6, 4)]
    record = instance_pb2.Instance(fid=ids, feature=[feature_pb2.Feature(name="f", fid=[fid_v2(9, 9)])])
    serialized = [record.SerializeToString(), instance_pb2.Instance(fid=ids[1:]).SerializeToString()]
    v1 = parse_instances(serialized, fidv1_features=[5, 700])
    assert v1["slot_5"].to_list() == [[ids[0], ids[2]], [ids[2]]]
    assert v1["slot_700"].to_list() == [[expected.signed(ids[1])]] * 2
    both = parse_instances(serialized, fidv1_features=["fc_slot_5"], fidv2_features=["f"])
    assert both["fc_slot_5"].to_list() == [[fid_v2(5, 1), fid_v2(5, 3)], [fid_v2(5, 3)]]
    assert both["f"].to_list() == [[fid_v2(9, 9)], []]
    assert parse_instances(serialized, fidv1_features={"user": 5})["user"].num_rows == 2


def test_single_ids_and_labels_of_an_instance() -> None:
    record = b"\x09" + fid_v1(5, 1).to_bytes(8, "little") + b"\x1d\x00\x00\x80\x3f" + b"\x1a\x04\x00\x00\x00\x40"
    assert instance_pb2.Instance.FromString(record).label == [1.0, 2.0]
    features = parse_instances([record], [5], dense_features=["label"], dense_feature_shapes=[3])
    assert features["slot_5"].to_list() == [[fid_v1(5, 1)]]
    assert features["label"].tolist() == [[1.0, 2.0, INVALID_LABEL]]


def example_batch(num_rows: int, **columns: list[example_pb2.Feature]) -> example_pb2.ExampleBatch:
    batch = example_pb2.ExampleBatch(batch_size=num_rows)
    for name, features in columns.items():
        kind = example_pb2.SHARED if name.startswith("shared") else example_pb2.INDIVIDUAL
        batch.named_feature_list.add(name=name, feature=features, type=kind)
    return batch


def fids(*values: int) -> example_pb2.Feature:
    return example_pb2.Feature(fid_v1_list=example_pb2.FidList(value=values))


def test_shared_features_of_a_batch_are_repeated() -> None:
    batch = example_batch(3, shared=[fids(fid_v1(1, 2), fid_v1(1, 3))], own=[fids(), fids(fid_v1(2, 1)), fids()])
    other = example_batch(1, own=[fids(fid_v1(2, 5))])
    features = parse_example_batch(
        [batch.SerializeToString(), other.SerializeToString()], ["shared", "own"], ["label", "instance_weight"], [1, 1]
    )
    assert features["shared"].to_list() == [[fid_v2(1, 2), fid_v2(1, 3)]] * 3 + [[]]
    assert features["own"].to_list() == [[], [fid_v2(2, 1)], [], [fid_v2(2, 5)]]
    assert features["label"].tolist() == [[INVALID_LABEL]] * 4
    assert features["instance_weight"].tolist() == [[1.0]] * 4


def test_damaged_batches_are_left_out_whole() -> None:
    good = example_batch(2, own=[fids(fid_v1(1, 1)), fids(fid_v1(1, 2))]).SerializeToString()
    short = example_batch(3, own=[fids(), fids(), fids()])
    short.batch_size = 2
    huge = b"\x18\xff\xff\xff\xff\x07"
    negative = b"\x18" + b"\xff" * 9 + b"\x01"
    wrong = example_batch(1, own=[example_pb2.Feature(float_value=1.0)]).SerializeToString()
    records = records_of([good, short.SerializeToString(), huge, wrong, good, negative, good[:-1]])
    parser = ExampleBatchParser({"own": "int64[]"}, on_error="skip")
    result = parser.parse(records)
    assert result.kept is not None
    assert result.kept.tolist() == [0, 4]
    assert result.columns["own"].to_list() == [[fid_v2(1, 1)], [fid_v2(1, 2)]] * 2
    reasons = [one.reason for one in result.bad]
    assert "column 'own' has 3 features for 2 rows" in reasons[0]
    assert "batch_size" in reasons[1]
    assert "feature 'own' holds a float_value, int64 was asked for" in reasons[2]
    assert "batch_size" in reasons[3]


def test_a_shared_list_cannot_ask_for_more_memory_than_there_is() -> None:
    batch = example_batch(300_000, shared=[fids(*range(40_000))])
    with pytest.raises(BadRecordError, match="shared by 300000 rows are more than 1 GiB"):
        ExampleBatchParser({"shared": "int64[]"})(records_of([batch.SerializeToString()]))


def test_lists_of_lists_are_refused() -> None:
    record = example(a=example_pb2.Feature(fid_v2_lists=example_pb2.FidLists(list=[example_pb2.FidList(value=[1])])))
    with pytest.raises(BadRecordError, match="feature 'a' holds lists of lists, int64 was asked for"):
        parse_examples([record.SerializeToString()], ["a"])
    nested = feature_pb2.Feature(name="a", fid_list=[feature_pb2.Fixed64List(value=[1])])
    with pytest.raises(BadRecordError, match="lists of lists"):
        parse_instances([instance_pb2.Instance(feature=[nested]).SerializeToString()], fidv2_features=["a"])


def test_a_single_value_replaces_what_came_before() -> None:
    """The members of a oneof, in the order of the wire: int64_list, int64_value, int64_value, int64_list."""
    listed, five, six = b"\x2a\x03\x0a\x01\x04", b"\x60\x05", b"\x60\x06"
    for content, values in [(listed + five, [5]), (five + six, [6]), (five + listed, [4]), (listed + listed, [4, 4])]:
        named = b"\x0a\x01a\x12" + bytes([len(content)]) + content
        record = b"\x0a" + bytes([len(named)]) + named
        message = example_pb2.Example.FromString(record).named_feature[0].feature
        assert (list(message.int64_list.value) or [message.int64_value]) == values
        assert parse_examples([record], ["a"])["a"].to_list() == [values]


def test_arguments_are_checked_as_in_the_original() -> None:
    with pytest.raises(ValueError, match="deplicate names, pls check!"):
        parse_examples([], ["a"], ["a"], [1])
    with pytest.raises(ValueError, match="deplicate names, pls check!"):
        parse_instances([], [5, "slot_5"])
    with pytest.raises(ValueError, match="color is not in line id, pls check!"):
        parse_examples([], [], extra_features=["color"], extra_feature_shapes=[1])
    with pytest.raises(ValueError, match="slot should be less than 1024, while got 1024"):
        parse_instances([], [1024])
    with pytest.raises(ValueError, match="dense_feature_shapes must be a positive width"):
        parse_examples([], [], ["a"], [0])
    with pytest.raises(ValueError, match="dense_feature_shapes"):
        parse_examples([], [], ["a"])
    with pytest.raises(ValueError, match="shape must be 1 for bytes list!"):
        parse_examples([], [], ["a"], [2], ["bytes"])
    with pytest.raises(ValueError, match="slot of 'user' is not known"):
        parse_instances([], ["user"])
