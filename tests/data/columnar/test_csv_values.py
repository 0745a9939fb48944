"""What a cell of a CSV file reads as: quotes, numbers at their limits, lists, missing values; pyarrow is the judge."""

import csv
import io
import random

import pytest
import torch

from monolith.data import Schema
from monolith.data.columnar import ColumnError, CsvSource
from monolith.features import ids_of_texts
from monolith.tensors import Ragged

CELLS = ["", "a", 'say "x"', "a,b", '"', ",", " spaced ", "é", "0", "-1", "tab\there", "x" * 100, '""', "semi;colon"]


def read(path, **schema):
    """Return the columns of a file as lists."""
    (batch,) = CsvSource(path, Schema.of(**schema))
    return {
        name: column.to_list() if isinstance(column, Ragged) else column.tolist()
        for name, column in batch.columns.items()
    }


def one(tmp_path, cell, dtype, **options):
    path = tmp_path / "one.csv"
    path.write_text(f"a,b\n0,{cell}\n")
    (batch,) = CsvSource(path, Schema.of(b=dtype), **options)
    column = batch.columns["b"]
    return (column.to_list() if isinstance(column, Ragged) else column.tolist())[0]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("seed", range(5))
def test_cells_are_those_written(tmp_path, quoting, seed):
    draw = random.Random(seed)
    rows = [[draw.choice(CELLS) for _ in range(6)] for _ in range(200)]
    text = io.StringIO()
    writer = csv.writer(text, quoting=quoting, lineterminator=draw.choice(["\n", "\r\n"]))
    writer.writerows([list("abcdef"), *rows])
    path = tmp_path / "a.csv"
    path.write_bytes(text.getvalue().encode())
    texts = read(path, f="bytes", a="bytes", c="bytes")
    assert {name: [bytes(row).decode() for row in rows] for name, rows in texts.items()} == {
        "f": [row[5] for row in rows],
        "a": [row[0] for row in rows],
        "c": [row[2] for row in rows],
    }
    assert read(path, e="hash")["e"] == ids_of_texts(row[4] for row in rows).tolist()


@pytest.mark.parametrize(
    "text", ["0", "-0", "1.5", "-2.5e3", "1e-46", "1e-400", "3.4028234e38", "inf", " 7 ", "16777217", "0.1", "1E5"]
)
def test_floats_are_those_of_pyarrow(tmp_path, text):
    pa = pytest.importorskip("pyarrow")
    expected = pa.array([text.strip()]).cast(pa.float32())[0].as_py()
    assert one(tmp_path, text, "float32") == expected


@pytest.mark.parametrize("text", ["9223372036854775807", "-9223372036854775808", " 12 "])
def test_whole_numbers_up_to_the_limits(tmp_path, text):
    assert one(tmp_path, text, "int64") == int(text)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("9223372036854775808", "int64"), ("1.0", "int64"), ("1e50", "float32"), ("1e400", "float32"), ("1,5", "float32")]
    + [("0x10", "int64"), ("--1", "int64"), ("1|", "int64[]"), ("x", "float32[]"), ("1_0", "int64"), ('"1', "int64")],
)
def test_what_is_no_number_is_refused(tmp_path, text, dtype):
    with pytest.raises(ColumnError, match=r"one\.csv: line 2: .*on_error"):
        one(tmp_path, text, dtype)


@pytest.mark.parametrize("text", ["", "NA", "NaN", "null", '""', " "])
def test_missing_numbers(tmp_path, text):
    with pytest.raises(ColumnError, match="column 'b' has no value"):
        one(tmp_path, text, "float32")
    assert one(tmp_path, text, "float32", fill_missing={"b": 0.5}) == 0.5
    assert one(tmp_path, text, "int64", fill_missing={"b": -(2**60) - 1}) == -(2**60) - 1


def test_missing_texts_and_lists(tmp_path):
    assert one(tmp_path, "", "hash") == ids_of_texts([""]).item()
    assert one(tmp_path, "", "hash", fill_missing={"b": "unknown"}) == ids_of_texts(["unknown"]).item()
    with pytest.raises(ValueError, match=r"'b', which is hash\[\]: an empty cell of a CSV file is an empty list"):
        one(tmp_path, "", "hash[]", fill_missing={"b": ["unknown"]})
    assert one(tmp_path, "NA", "hash") == ids_of_texts(["NA"]).item()  # Namibia
    assert one(tmp_path, "", "hash[]") == one(tmp_path, "", "float32[]") == []
    assert one(tmp_path, "a||b", "hash[]") == ids_of_texts(["a", "", "b"]).tolist()
    assert one(tmp_path, "a::b", "hash[2]", list_delimiter="::") == ids_of_texts(["a", "b"]).tolist()
    with pytest.raises(ColumnError, match="column 'b' has 1 values where the schema says 2"):
        one(tmp_path, "a", "hash[2]")
    assert one(tmp_path, "3|4", "hash") == ids_of_texts(["3|4"]).item()


def test_a_mark_at_the_begin_is_no_part_of_the_first_cell(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfuser\nu1\n")
    assert read(path, user="hash")["user"] == ids_of_texts(["u1"]).tolist()
    path.write_bytes(b"\xef\xbb\xbfu1\nu2\n")
    (batch,) = CsvSource(path, Schema.of(user="hash"), column_names=["user"])
    assert torch.equal(batch.columns["user"], ids_of_texts(["u1", "u2"]))


def test_random_bytes_end_no_process(tmp_path):
    draw = random.Random(7)
    path = tmp_path / "a.csv"
    schema = Schema.of(a="int64", b="float32", c="bytes", d="hash", e="hash[]", f="float32[2]")
    for _ in range(300):
        noise = bytes(draw.choice(b'0123456789.,"|\n\r \xff-eE') for _ in range(draw.randrange(200)))
        path.write_bytes(b"a,b,c,d,e,f\n" + b"1,2,x,y,z|w,1|2\n" + noise)
        source = CsvSource(path, schema, on_error="skip", fill_missing={"a": 0, "b": 0})
        assert sum(len(batch) for batch in source) + source.num_skipped >= 1
