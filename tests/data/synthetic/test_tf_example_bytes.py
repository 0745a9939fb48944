"""Serialized tf.Examples made column by column are those that protobuf makes one by one."""

import numpy as np
import pytest

from monolith.data.synthetic import tf_example_bytes
from monolith.protos.tf_example_pb2 import Example

EDGES = np.array([0, 1, 127, 128, 16_383, 16_384, 2**32, 2**56 - 1, 2**56, 2**63 - 1, -1, -(2**63)])


def by_protobuf(columns):
    records = []
    for row in range(len(next(iter(columns.values())))):
        example = Example()
        for name, column in columns.items():
            feature = example.features.feature[name]
            values = feature.int64_list.value if column.dtype == np.int64 else feature.float_list.value
            values.extend(np.atleast_1d(column[row]).tolist())
        records.append(example)
    return records


def parsed(columns):
    return [Example.FromString(record) for record in tf_example_bytes(columns).to_bytes_list()]


def test_equals_protobuf_on_numbers_of_every_length():
    columns = {"id": EDGES, "pair": np.stack([EDGES, EDGES[::-1]], 1), "x": EDGES.astype(np.float32)}
    assert parsed(columns) == by_protobuf(columns)


def test_a_single_feature_gives_the_very_bytes_of_protobuf():
    columns = {"id": EDGES}
    assert tf_example_bytes(columns).to_bytes_list() == [one.SerializeToString() for one in by_protobuf(columns)]


def test_lists_longer_than_one_byte_of_length_can_say():
    random = np.random.default_rng(3)
    columns = {"ids": random.integers(0, 2**63, (5, 40)), "dense": random.random((5, 3000), np.float32)}
    assert parsed(columns) == by_protobuf(columns)


@pytest.mark.parametrize("count", [0, 1, 4096, 4097])
def test_any_number_of_events(count):
    ids = np.arange(count) * 1_000_003
    assert [list(one.features.feature["id"].int64_list.value) for one in parsed({"id": ids})] == [[i] for i in ids]


def test_columns_must_fit_together():
    with pytest.raises(ValueError, match="one length, got .*'a': 2"):
        tf_example_bytes({"a": np.zeros(2, np.int64), "b": np.zeros(3, np.int64)})
    with pytest.raises(TypeError, match="'a' must be int64 or float32, got int32"):
        tf_example_bytes({"a": np.zeros(2, np.int32)})
