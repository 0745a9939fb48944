import numpy as np
import pytest
import torch

from monolith.data import Batch, Schema


def test_records_are_packed_and_little_endian():
    schema = Schema.of(a="float32", b="int64")
    assert schema.numpy_dtype == np.dtype([("a", "<f4"), ("b", "<i8")])
    assert schema.record_bytes == 12
    assert np.array([(1.0, 2)], schema.numpy_dtype).tobytes().hex() == "0000803f" + "0200000000000000"


def test_order_names_and_types_make_the_hash():
    schemas = [
        Schema.of(a="int64", b="int64"),
        Schema.of(b="int64", a="int64"),
        Schema.of(a="int64", c="int64"),
        Schema.of(a="int64", b="float32"),
    ]
    assert len({schema.hash for schema in schemas}) == 4
    assert all(Schema.from_json(schema.to_json()) == schema for schema in schemas)


@pytest.mark.parametrize("columns", [(), (("a", "int64"), ("a", "float32")), (("", "int64"),), (("a", "int32"),)])
def test_a_wrong_schema_is_refused(columns):
    with pytest.raises(ValueError):
        Schema(columns)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"columns": 3}',
        '{"columns": [["a"]]}',
        '{"columns": [["a", []]]}',
        '{"columns": [[1, "int64"]]}',
    ]
    + ["[" * 100_000],
)
def test_text_that_is_no_schema_is_refused(text):
    with pytest.raises(ValueError):
        Schema.from_json(text)


def test_a_batch_holds_what_its_offsets_say():
    with pytest.raises(ValueError, match="needs 3 values per column"):
        Batch(columns={"a": torch.zeros(2)}, first=4, last=7)
