import numpy as np
import pytest
import torch

from monolith.data import Batch, Schema
from monolith.tensors import Ragged


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


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"batch 0\[4, 7\) differ in length"):
        Batch(columns={"a": torch.zeros(2), "b": Ragged.from_lists([[1], [], [2]])}, first=4, last=7)


def test_types_of_columns_and_what_they_hold():
    schema = Schema.of(a="int64", b="float32[3]", c="int64[]", d="bytes", e="int64[1]")
    kinds = {name: (kind.item, kind.width, kind.is_ragged) for name, kind in schema.types.items()}
    assert kinds == {
        "a": ("int64", 1, False),
        "b": ("float32", 3, False),
        "c": ("int64", None, True),
        "d": ("uint8", None, True),
        "e": ("int64", 1, False),
    }
    assert (schema.types["a"].event_shape, schema.types["e"].event_shape) == ((), (1,))
    assert schema.record_bytes == 8 + 12 + 4 + 4 + 8  # of ragged columns their lengths


@pytest.mark.parametrize(
    "dtype", ["int64[0]", "int64[-1]", "bytes[]", "uint8", "float32[", "int64[1][2]", "int64[9999999999]"]
)
def test_types_that_no_column_has(dtype):
    with pytest.raises(ValueError, match="column 'a': a column's type must be"):
        Schema.of(a=dtype)


def test_selecting_and_slicing_ragged_rows_against_lists():
    rows = [[1], [], [2, 3], [4, 5, 6]]
    batch = Batch(columns={"r": Ragged.from_lists(rows), "x": torch.arange(4)}, first=0, last=4)
    chosen = batch.select(torch.tensor([3, 0, 3]))
    assert (chosen.columns["r"].to_list(), chosen.columns["x"].tolist()) == ([rows[3], rows[0], rows[3]], [3, 0, 3])
    masked = batch.select(torch.tensor([False, True, True, False]))
    assert (masked.columns["r"].to_list(), masked.name) == (rows[1:3], "0[0, 4)")
    assert batch.rows(1, 3).columns["r"].to_list() == rows[1:3]
    assert len(batch.rows(2, 2)) == 0
