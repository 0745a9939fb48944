"""tf.Example records turned into Example records."""

import math

import numpy as np
import pytest

from monolith._core import native
from monolith.data.parse import BadRecordError, parse_examples, records_of, tf_example_to_example
from monolith.features.string_hash import hash_bytes
from monolith.protos import example_pb2, tf_example_pb2
from tests.data.parse.made_records import fid_v2, tf_example

SPARSE = {"ids": 1, "words": 700, "amounts": 32767, "mixed": 9}
DENSE = ["floats", "ints", "texts", "any"]
NAMES = [*SPARSE, *DENSE, "label", "weight", "other", "öther"]


def by_protobuf(record: bytes) -> bytes:
    """The conversion in plain Python, by the messages."""
    features = tf_example_pb2.Example.FromString(record).features.feature
    example = example_pb2.Example(instance_weight=1.0)
    for name in sorted(features):
        feature = features[name]
        kind = feature.WhichOneof("kind")
        if name == "label":
            example.label.extend(feature.float_list.value)
        elif name == "weight" and len(feature.float_list.value) == 1:
            example.instance_weight = feature.float_list.value[0]
        elif name in SPARSE:
            named = example.named_feature.add(name=name, id=SPARSE[name])
            payloads = [int(math.log2(abs(value) + 1)) for value in feature.float_list.value]
            payloads += [hash_bytes(value) for value in feature.bytes_list.value]
            payloads += feature.int64_list.value
            named.feature.fid_v2_list.SetInParent()
            named.feature.fid_v2_list.value.extend(fid_v2(SPARSE[name], one % 2**48) for one in payloads)
        elif name in DENSE:
            out = example.named_feature.add(name=name).feature
            if kind is not None:
                getattr(out, kind).SetInParent()
                getattr(out, kind).value.extend(getattr(feature, kind).value)
    return example.SerializeToString()


def random_record(rng: np.random.Generator) -> bytes:
    example = tf_example_pb2.Example()
    for name in rng.permutation(NAMES)[: rng.integers(len(NAMES) + 1)].tolist():
        feature = example.features.feature[name]
        count = int(rng.integers(0, 40) if rng.random() < 0.2 else rng.integers(0, 4))
        match rng.integers(4):
            case 0:
                values = rng.integers(-(2**63), 2**63, count) >> rng.integers(0, 64, count)
                feature.int64_list.SetInParent()
                feature.int64_list.value.extend(values.tolist())
            case 1:
                feature.float_list.SetInParent()
                feature.float_list.value.extend((rng.normal(size=count) * 10.0 ** rng.integers(-3, 30)).tolist())
            case 2:
                feature.bytes_list.SetInParent()
                feature.bytes_list.value.extend(rng.bytes(int(rng.integers(200))) for _ in range(count))
    return example.SerializeToString(deterministic=True)


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


def test_random_records_become_what_protobuf_makes_of_them() -> None:
    rng = np.random.default_rng(4)
    records = [random_record(rng) for _ in range(1500)]  # enough for several threads
    converted = tf_example_to_example(records_of(records), SPARSE, DENSE, "label", "weight")
    assert converted.num_rows == len(records)
    assert converted.to_bytes_list() == [by_protobuf(record) for record in records]


def test_one_thread_gives_the_same_bytes_as_several() -> None:
    records = records_of([random_record(np.random.default_rng(seed)) for seed in range(400)])
    before = native.num_threads()
    results = []
    try:
        for count in (1, 4):
            native.set_num_threads(count)
            results.append(tf_example_to_example(records, SPARSE, DENSE, "label", "weight").to_bytes_list())
    finally:
        native.set_num_threads(before)
    assert results[0] == results[1]


def test_fields_in_any_order_and_in_pieces_are_read_as_protobuf_reads_them() -> None:
    ints, floats = tf_example_pb2.Feature(), tf_example_pb2.Feature()
    ints.int64_list.value.extend([5, -6])
    floats.float_list.value.append(2.5)

    def field(tag: int, content: bytes) -> bytes:
        return bytes([tag, len(content)]) + content

    two_ints, one_float = ints.SerializeToString(), floats.SerializeToString()
    name = field(0x0A, b"any")
    unpacked = field(0x1A, bytes([0x08, 7, 0x08, 8]))
    entries = [
        field(0x12, two_ints) + name,  # the value before its name
        name + field(0x12, two_ints) + field(0x12, unpacked),  # pieces of one list join
        name + field(0x12, one_float) + field(0x12, two_ints),  # of a oneof the last stands
        name + field(0x12, two_ints) + field(0x12, one_float),
        name,
    ]
    whole = [field(0x0A, field(0x0A, entry)) for entry in entries]
    # Twice under one name: the last counts, also across two pieces of the features.
    records = [*whole, whole[1] + whole[3], field(0x0A, field(0x0A, entries[2]) + field(0x0A, entries[4]))]
    assert tf_example_to_example(records, SPARSE, DENSE, "label").to_bytes_list() == list(map(by_protobuf, records))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_float_that_is_not_finite_makes_no_id(value: float) -> None:
    record = tf_example(amounts=[1.0, value])
    with pytest.raises(BadRecordError, match="record 1, byte .*finite"):
        tf_example_to_example([tf_example(ids=[1]), record], SPARSE, DENSE, "label")
    assert tf_example_to_example([record], {}, ["amounts"], "").num_rows == 1  # as it is, it may be anything


def test_cut_records_are_refused_or_read_as_protobuf_reads_them() -> None:
    record = random_record(np.random.default_rng(8))
    for end in range(len(record)):
        try:
            expected = by_protobuf(record[:end])
        except Exception:  # noqa: BLE001  whatever protobuf says of it
            with pytest.raises(BadRecordError, match="record 0, byte"):
                tf_example_to_example([record[:end]], SPARSE, DENSE, "label", "weight")
        else:
            assert tf_example_to_example([record[:end]], SPARSE, DENSE, "label", "weight").to_bytes_list() == [expected]


def test_no_records_are_no_records() -> None:
    assert tf_example_to_example([], SPARSE, DENSE, "label").num_rows == 0
