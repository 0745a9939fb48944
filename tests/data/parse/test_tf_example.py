"""tf.Example records: types, widths, order, encodings and what goes wrong with them."""

import struct

import numpy as np
import pytest
import torch

from monolith._core import native
from monolith.data import Schema
from monolith.data.parse import (
    BadRecordError,
    ColumnRequest,
    MissingFeatureError,
    TfExampleParser,
    parse_tf_examples,
    records_of,
)
from monolith.features.string_hash import hash_bytes
from monolith.protos import tf_example_pb2
from monolith.tensors import Ragged
from tests.data.parse.made_records import random_tf_example, tf_example


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def entry(name: bytes, feature: bytes) -> bytes:
    """A record with one feature, whose bytes are given."""
    return field(1, field(1, field(1, name) + field(2, feature)))


def test_every_kind_of_column() -> None:
    records = records_of([
        tf_example(uid=[7], tags=[1, 2, 3], dense=[0.5, 1.5], label=[1.0], name=[b"ab"], marks=[2.0]),
        tf_example(uid=[-8], tags=[], dense=[2.5], label=[0.0], name=[b""], marks=[3.0, 4.0]),
    ])  # fmt: skip
    parser = TfExampleParser.of(
        uid="int64",
        tags="int64[]",
        dense="float32[2]",
        label="float32",
        name="bytes",
        marks="float32[]",
        two="int64[2]",
    )
    columns, kept = parser(records)
    assert kept is None
    assert columns["uid"].tolist() == [7, -8]
    assert columns["tags"].to_list() == [[1, 2, 3], []]
    assert columns["dense"].tolist() == [[0.5, 1.5], [2.5, 0.0]]
    assert columns["label"].tolist() == [1.0, 0.0]
    assert [bytes(row) for row in columns["name"].to_list()] == [b"ab", b""]
    assert columns["marks"].to_list() == [[2.0], [3.0, 4.0]]
    assert columns["two"].tolist() == [[0, 0], [0, 0]]
    types = {name: (c.values if isinstance(c, Ragged) else c).dtype for name, c in columns.items() if name != "two"}
    assert types == {
        "uid": torch.int64, "tags": torch.int64, "dense": torch.float32, "label": torch.float32, "name": torch.uint8,
        "marks": torch.float32,
    }  # fmt: skip
    assert parser.schema == Schema.of(
        uid="int64",
        tags="int64[]",
        dense="float32[2]",
        label="float32",
        name="bytes",
        marks="float32[]",
        two="int64[2]",
    )


def test_longer_lists_are_cut_and_missing_values_are_the_callers_choice() -> None:
    records = records_of([tf_example(a=[1, 2, 3], b=[1.0]), tf_example(b=[2.0, 3.0])])
    parser = TfExampleParser({"a": "int64[2]", "b": "float32[2]"}, missing={"a": -1, "b": 0.25})
    columns, _ = parser(records)
    assert columns["a"].tolist() == [[1, 2], [-1, -1]]
    assert columns["b"].tolist() == [[1.0, 0.25], [2.0, 3.0]]


VARINTS = [0, 1, 127, 128, 2**14, 2**21 - 1, 2**35, 2**49, 2**56 - 1, 2**56, 2**62, 2**63 - 1, -1, -(2**63), -(2**40)]


@pytest.mark.parametrize("padding", [0, 20])
def test_varints_of_every_length(padding: int) -> None:
    """With and without bytes behind the record, since near the end of the buffer other code reads them."""
    lists = [[value] for value in VARINTS] + [VARINTS, VARINTS[::-1]]
    for values in lists:
        record = tf_example(a=values)
        data = torch.frombuffer(bytearray(record + bytes(padding)), dtype=torch.uint8)
        records = Ragged(data[: len(record)], torch.tensor([0, len(record)]))
        columns = parse_tf_examples(records, {"a": "int64[]"})
        assert columns["a"].to_list() == [values]
        first = parse_tf_examples([record], {"a": "int64"})
        assert first["a"].tolist() == values[:1]


def test_single_and_packed_values_may_alternate() -> None:
    ints = field(3, b"\x08\x05" + field(1, b"\x06\x07") + b"\x08\x08")
    floats = field(2, b"\x0d" + struct.pack("<f", 1.5) + field(1, struct.pack("<2f", 2.5, 3.5)))
    columns = parse_tf_examples([entry(b"i", ints), entry(b"f", floats)], {"i": "int64[]", "f": "float32[3]"})
    assert columns["i"].to_list() == [[5, 6, 7, 8], []]
    assert columns["f"].tolist() == [[0.0, 0.0, 0.0], [1.5, 2.5, 3.5]]


def test_what_protobuf_allows_and_nobody_writes() -> None:
    five, six = field(3, field(1, b"\x05")), field(3, field(1, b"\x06"))
    value_first = field(1, field(1, field(2, five) + field(1, b"a")))
    twice_in_map = entry(b"a", five) + entry(b"a", six)
    lists_merge = entry(b"a", five + six)
    values_merge = field(1, field(1, field(1, b"a") + field(2, five) + field(2, six)))
    last_kind_wins = entry(b"a", field(2, field(1, struct.pack("<f", 1.0))) + six)
    unknown_fields = b"\x50\x01" + entry(b"a", b"\x9d\x01abcd" + five) + b"\x59" + bytes(8) + b"\x73\x08\x01\x74"
    long_tag = b"\x8a\x80\x00" + entry(b"a", five)[1:]
    records = [value_first, twice_in_map, lists_merge, values_merge, last_kind_wins, unknown_fields, long_tag, b""]
    for record in records:
        assert tf_example_pb2.Example.FromString(record)
    expected = [[5], [6], [5, 6], [5, 6], [6], [5], [5], []]
    assert parse_tf_examples(records, {"a": "int64[]"})["a"].to_list() == expected
    assert parse_tf_examples(records, {"a": "int64"})["a"].tolist() == [(row + [0])[0] for row in expected]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_many_records_in_any_order_equal_what_protobuf_reads(num_threads: int) -> None:
    rng = np.random.default_rng(num_threads)
    examples = [random_tf_example(rng) for _ in range(700)]
    native.set_num_threads(num_threads)
    try:
        columns = parse_tf_examples(
            [example.SerializeToString() for example in examples],
            {
                "ids": "int64[]",
                "more": "int64[3]",
                "one": "int64",
                "dense": "float32[]",
                "label": "float32",
                "text": "bytes",
            },
        )
    finally:
        native.set_num_threads(0)
    maps = [example.features.feature for example in examples]
    ids = [list(features["ids"].int64_list.value) for features in maps]
    more = [(list(features["more"].int64_list.value) + [0, 0, 0])[:3] for features in maps]
    assert columns["ids"].to_list() == ids
    assert columns["more"].tolist() == more
    assert columns["one"].tolist() == [(list(features["one"].int64_list.value) + [0])[0] for features in maps]
    assert columns["dense"].to_list() == [list(features["dense"].float_list.value) for features in maps]
    assert columns["label"].tolist() == [(list(features["label"].float_list.value) + [0.0])[0] for features in maps]
    texts = [b"".join(features["text"].bytes_list.value) for features in maps]
    assert [bytes(row) for row in columns["text"].to_list()] == texts


GOOD = tf_example(a=[1])
DAMAGED = [
    (GOOD[:-1], 1, "bytes of content"),
    (b"\xff", 0, "varint"),
    (b"\x00", 0, "field number"),
    (b"\x0f", 1, "wire type"),
    (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1, "18446744073709551615 bytes"),
    (entry(b"a", field(3, field(1, b"\x80"))), 13, "varint"),
    (entry(b"a", field(3, field(1, b"\x80" * 11 + b"\x01"))), 13, "varint"),
    (b"\x0b" * 200, 100, "100 groups"),
    (b"\x0b\x14", 1, "end of group 1"),
    (b"\x0b", 1, "end of group 1"),
]


@pytest.mark.parametrize(("record", "offset", "text"), DAMAGED)
def test_a_damaged_record_is_named(record: bytes, offset: int, text: str) -> None:
    with pytest.raises(BadRecordError, match=f"record 1, byte {offset}: .*{text}") as caught:
        parse_tf_examples([GOOD, record, GOOD], {"a": "int64"})
    assert (caught.value.bad.record, caught.value.bad.offset) == (1, offset)
    assert isinstance(caught.value, ValueError)


def test_damaged_floats() -> None:
    with pytest.raises(BadRecordError, match="4-byte values"):
        parse_tf_examples([entry(b"a", field(2, field(1, b"abc")))], {"a": "float32"})


def test_bad_records_can_be_skipped() -> None:
    rows = [tf_example(a=[i], b=[i] * (i % 3), c=[float(i)], d=[b"x" * i]) for i in range(200)]
    bad = [0, 7, 8, 199]
    records = [row[:-1] if i in bad else row for i, row in enumerate(rows)]
    parser = TfExampleParser({"a": "int64", "b": "int64[]", "c": "float32[2]", "d": "bytes"}, on_error="skip")
    parsed = parser.parse(records_of(records))
    good = [i for i in range(200) if i not in bad]
    assert [one.record for one in parsed.bad] == bad
    assert parsed.kept is not None
    assert parsed.kept.tolist() == good
    assert parsed.num_rows == parser(records_of(records))[0]["a"].shape[0] == 196
    assert parser.num_skipped == 8
    assert parsed.columns["a"].tolist() == good
    assert parsed.columns["b"].to_list() == [[i] * (i % 3) for i in good]
    assert parsed.columns["c"].tolist() == [[float(i), 0.0] for i in good]
    assert [len(row) for row in parsed.columns["d"].to_list()] == good


def test_a_feature_of_another_type_is_named() -> None:
    text = tf_example(label=[b"yes"])
    with pytest.raises(BadRecordError, match="feature 'label' holds a bytes_list, float32 was asked for"):
        parse_tf_examples([text], {"label": "float32"})
    with pytest.raises(BadRecordError, match="feature 'label' holds an int64_list, float32 was asked for"):
        parse_tf_examples([tf_example(label=[1])], {"label": "float32[]"})
    with pytest.raises(BadRecordError, match="feature 'label' holds a float_list, int64 was asked for"):
        parse_tf_examples([tf_example(label=[1.0])], {"label": "int64[]"})
    with pytest.raises(BadRecordError, match="feature 'name' holds 2 strings, exactly one is wanted"):
        parse_tf_examples([tf_example(name=[b"a", b"b"])], {"name": "bytes"})


def test_a_required_feature_must_be_somewhere_in_the_batch() -> None:
    records = records_of([tf_example(a=[1]), tf_example(b=[2])])
    TfExampleParser({"a": "int64", "b": "int64"}, required=True)(records)
    with pytest.raises(MissingFeatureError, match="required c"):
        TfExampleParser({"a": "int64", "c": "int64[]"}, required=["c"])(records)
    TfExampleParser({"c": "int64[]"}, required=["c"])(records_of([]))
    with pytest.raises(ValueError, match="d in required or missing"):
        TfExampleParser({"a": "int64"}, required=["d"])


def test_an_empty_batch() -> None:
    columns, kept = TfExampleParser.of(a="int64", b="float32[3]", c="int64[]", d="bytes")(records_of([]))
    assert kept is None
    assert columns["a"].shape == (0,)
    assert columns["b"].shape == (0, 3)
    assert columns["c"].num_rows == columns["d"].num_rows == 0


def test_wrong_records_are_refused_before_parsing() -> None:
    with pytest.raises(TypeError, match="uint8"):
        TfExampleParser.of(a="int64")(Ragged.from_lists([[1]]))
    parser = native.RecordParser("tf_example", [ColumnRequest(name="a", dtype="int64").native()])
    with pytest.raises(ValueError, match="row_splits"):
        parser.parse(torch.zeros(4, dtype=torch.uint8), torch.tensor([0, 5]))
    with pytest.raises(ValueError, match="on_error"):
        TfExampleParser({"a": "int64"}, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="neither slots nor a line id"):
        native.RecordParser("tf_example", [ColumnRequest(name="a", dtype="int64[]", source="slot").native()])


def test_strings_become_ids_by_the_stated_hash() -> None:
    records = [tf_example(tag=[b"red", b"blue"]), tf_example(tag=[]), tf_example(tag=[b"red"])]
    rows = parse_tf_examples(records, {"tag": "int64[]"})["tag"].to_list()
    assert rows == [[hash_bytes(b"red"), hash_bytes(b"blue")], [], [hash_bytes(b"red")]]
    first = parse_tf_examples(records, {"tag": "int64"})["tag"].tolist()
    assert first == [hash_bytes(b"red"), 0, hash_bytes(b"red")]
