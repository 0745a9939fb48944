"""tf.Example records turned into Example records."""

import pytest

from monolith.data.parse import BadRecordError, parse_examples, tf_example_to_example
from monolith.protos import example_pb2
from tests.data.parse.made_records import fid_v2, tf_example


def test_features_become_ids_dense_values_labels_and_weights() -> None:
    record = tf_example(
        user=[7, -1], price=[3.0, -8.5], d=[1.5], text=[b"x"], n=[4], label=[1.0, 0.0], w=[0.5], other=[1]
    )
    converted = tf_example_to_example(
        [record, tf_example(user=[1])], {"user": 3, "price": 32767}, ["d", "text", "n"], "label", "w"
    )
    first = example_pb2.Example.FromString(bytes(converted.to_list()[0]))
    features = {one.name: one for one in first.named_feature}
    assert set(features) == {"user", "price", "d", "text", "n"}
    assert features["user"].id == 3
    # |3| + 1 = 4 = 2 ** 2; 9.5 lies between 2 ** 3 and 2 ** 4.
    assert list(features["price"].feature.fid_v2_list.value) == [fid_v2(32767, 2), fid_v2(32767, 3)]
    assert list(features["text"].feature.bytes_list.value) == [b"x"]
    assert list(features["n"].feature.int64_list.value) == [4]
    columns = parse_examples(converted, ["user"], ["d", "label", "instance_weight"], [1, 2, 1])
    assert columns["user"].to_list() == [[fid_v2(3, 7), fid_v2(3, 2**48 - 1)], [fid_v2(3, 1)]]
    assert columns["d"].tolist() == [[1.5], [0.0]]
    assert columns["label"].tolist()[0] == [1.0, 0.0]
    assert columns["instance_weight"].tolist() == [[0.5], [1.0]]


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="slots must be 1 to 32767, got {'a': 0}"):
        tf_example_to_example([], {"a": 0}, [], "label")
    with pytest.raises(ValueError, match="slots must be 1 to 32767"):
        tf_example_to_example([], {"a": 32768}, [], "label")
    with pytest.raises(ValueError, match="a slot of its own"):
        tf_example_to_example([], {"a": 1, "b": 1}, [], "label")
    for sparse, dense, label, weight in [("a", "a", "l", None), ("a", "b", "a", None), ("a", "b", "l", "b")]:
        with pytest.raises(ValueError, match="must not overlap"):
            tf_example_to_example([], {sparse: 1}, [dense], label, weight)
    with pytest.raises(BadRecordError, match="record 1, byte"):
        tf_example_to_example([tf_example(a=[1]), b"\xff"], {"a": 1}, [], "label")
