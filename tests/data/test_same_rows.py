"""The same rows give the same batches, whichever source they come through: text, lists, numbers and missing values."""

import csv
import json

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.data import EventLogWriter, Schema, TFRecordWriter
from monolith.data.transforms.step import schema_after
from monolith.features import hash_bytes
from monolith.protos.tf_example_pb2 import Example
from monolith.tensors import Ragged

pandas = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

import pyarrow.feather  # noqa: E402  after the check that it is there
import pyarrow.parquet  # noqa: E402

SCHEMA = Schema.of(user="hash", item="hash", genres="hash[]", age="int64", price="float32", label="float32")
FILL = {"age": -1, "price": 0.25, "item": "unknown"}
ROWS = [
    {"user": "u1", "item": 196, "genres": ["Action", "Comedy"], "age": 24, "price": 0.5, "label": 1.0},
    {"user": None, "item": None, "genres": None, "age": None, "price": None, "label": 0.0},
    {"user": "", "item": 7, "genres": [], "age": -3, "price": 1e-3, "label": 0.0},
    {"user": 'müller, "x"', "item": -7, "genres": ["Film-Noir"], "age": 2**40, "price": 2.0, "label": 1.0},
    {"user": "u1", "item": 2**62, "genres": ["Children's", "Action"], "age": 0, "price": -0.5, "label": 1.0},
]
SIZE = 3


def id_of(value):
    return hash_bytes(str("" if value is None else value).encode())


EXPECTED = {
    "user": [id_of(row["user"]) for row in ROWS],
    "item": [id_of("unknown" if row["item"] is None else row["item"]) for row in ROWS],
    "genres": [[id_of(genre) for genre in row["genres"] or []] for row in ROWS],
    "age": [-1 if row["age"] is None else row["age"] for row in ROWS],
    "price": [float(np.float32(0.25 if row["price"] is None else row["price"])) for row in ROWS],
    "label": [row["label"] for row in ROWS],
}


def columns():
    return {name: [row[name] for row in ROWS] for name in SCHEMA.names}


def table():
    types = {"user": pa.string(), "item": pa.int64(), "genres": pa.list_(pa.string()), "age": pa.int64()}
    return pa.table(columns(), pa.schema([(name, types.get(name, pa.float64())) for name in SCHEMA.names]))


def from_arrays(folder):
    return mono.data.arrays(columns(), batch_size=SIZE, schema=SCHEMA, fill_missing=FILL)


def from_numpy(folder):
    arrays = {name: np.array(values, object) for name, values in columns().items() if name != "genres"}
    arrays["genres"] = [None if genres is None else np.array(genres, "U20") for genres in columns()["genres"]]
    return mono.data.arrays(arrays, batch_size=SIZE, schema=SCHEMA, fill_missing=FILL)


def from_iterable(folder):
    return mono.data.iterable(lambda: iter(ROWS), batch_size=SIZE, schema=SCHEMA, fill_missing=FILL)


def from_frame(folder):
    frame = pandas.DataFrame({**columns(), "item": pandas.array(columns()["item"], "Int64")})
    frame["age"] = pandas.array(columns()["age"], "Int64")
    return mono.data.frame(frame, batch_size=SIZE, schema=SCHEMA, fill_missing=FILL)


def from_parquet(folder):
    pyarrow.parquet.write_table(table(), folder / "rows.parquet")
    return mono.data.parquet(folder / "rows.parquet", batch_size=SIZE, schema=SCHEMA, fill_missing=FILL)


def from_dictionary_parquet(folder):
    coded = table().set_column(0, "user", table().column("user").dictionary_encode())
    pyarrow.parquet.write_table(coded, folder / "rows.parquet")
    return mono.data.parquet(folder / "rows.parquet", batch_size=SIZE, schema=SCHEMA, fill_missing=FILL)


def from_arrow(folder):
    pyarrow.feather.write_feather(table(), folder / "rows.arrow")
    return mono.data.arrow(folder / "rows.arrow", batch_size=SIZE, schema=SCHEMA, fill_missing=FILL)


def from_csv(folder):
    with open(folder / "rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(SCHEMA.names)
        for row in ROWS:
            cells = {**row, "genres": "|".join(row["genres"] or [])}
            writer.writerow(["" if cells[name] is None else cells[name] for name in SCHEMA.names])
    options = {"fill_missing": FILL, "list_delimiter": "|"}
    return mono.data.csv(folder / "rows.csv", batch_size=SIZE, options=options, **dict(SCHEMA))


def json_lines():
    # A key that is missing and one that is null are the same.
    return [json.dumps({k: v for k, v in row.items() if v is not None or k == "user"}).encode() for row in ROWS]


def from_jsonl(folder):
    (folder / "rows.jsonl").write_bytes(b"\n".join(json_lines()))
    return mono.data.jsonl(folder / "rows.jsonl", batch_size=SIZE, options={"fill_missing": FILL}, **dict(SCHEMA))


def from_json_records(folder):
    records = mono.data.arrays({"record": json_lines()}, batch_size=SIZE)
    return records.parse("json", fill_missing=FILL, **dict(SCHEMA))


def from_tf_example(folder):
    with TFRecordWriter(str(folder / "rows.tfrecord")) as writer:
        for row in ROWS:
            example = Example()
            for name, value in row.items():
                values = [] if value is None else value if isinstance(value, list) else [value]
                kind = {"user": "bytes_list", "genres": "bytes_list", "item": "int64_list", "age": "int64_list"}
                items = [one.encode() if isinstance(one, str) else one for one in values]
                if items:
                    getattr(example.features.feature[name], kind.get(name, "float_list")).value.extend(items)
            writer.write(example.SerializeToString())
    records = mono.data.tfrecord(str(folder / "rows.tfrecord"), batch_size=SIZE)
    return records.parse(fill_missing=FILL, **dict(SCHEMA))


def from_event_log(folder):
    with EventLogWriter(folder / "log", SCHEMA, fill_missing=FILL) as writer:
        writer.append(columns())
    return mono.data.event_log(folder / "log", batch_size=SIZE)


MAKERS = [value for name, value in list(globals().items()) if name.startswith("from_")]


def read(source):
    found = {name: [] for name in source.schema.names}
    for batch in source:
        for name, column in batch.columns.items():
            assert (column.values if isinstance(column, Ragged) else column).dtype in (torch.int64, torch.float32)
            found[name] += column.to_list() if isinstance(column, Ragged) else column.tolist()
    return found


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_every_source_gives_the_same_batches(make, tmp_path):
    source = make(tmp_path)
    found = read(source)
    assert found == {name: EXPECTED[name] for name in found}
    assert dict(source.schema) == {name: dict(SCHEMA)[name] for name in found}
    mono.data.assert_resume_is_exact(lambda: make(tmp_path) if make is not from_event_log else source.shard(1, 0))


def test_the_ids_are_the_stated_hash():
    assert EXPECTED["user"][0] == 7313556432661986459  # docs/formats.md has it
    assert EXPECTED["item"][2] == hash_bytes(b"7")


@pytest.mark.parametrize("make", [from_arrays, from_frame, from_parquet, from_jsonl, from_iterable])
def test_a_fraction_is_no_text(make, tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.SCHEMA", Schema.of(price="hash"))
    monkeypatch.setattr(f"{__name__}.FILL", {})
    monkeypatch.setattr(f"{__name__}.ROWS", [{"price": 0.5}])
    with pytest.raises(ValueError, match="price"):
        if make is from_frame:
            list(mono.data.frame(pandas.DataFrame({"price": [0.5]}), schema=SCHEMA))
        list(make(tmp_path))


def test_tensors_of_ids_pass_as_they_are(tmp_path):
    (batch,) = from_arrays(tmp_path).take(1)
    with EventLogWriter(tmp_path / "log", Schema.of(user="hash")) as writer:
        writer.append({"user": batch.columns["user"]})
    assert read(mono.data.event_log(tmp_path / "log", batch_size=9))["user"] == EXPECTED["user"][:SIZE]


def test_json_may_mix_text_and_numbers(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"user": "7", "tags": [1, 2]}\n{"user": 7, "tags": ["1", "2"]}\n{"user": "x", "tags": []}\n')
    found = read(mono.data.jsonl(path, user="hash", tags="hash[]"))
    records = mono.data.arrays({"record": path.read_bytes().splitlines()})
    assert found == read(records.parse("json", user="hash", tags="hash[]"))
    assert found["user"] == [id_of(7), id_of(7), id_of("x")]
    assert found["tags"] == [[id_of(1), id_of(2)]] * 2 + [[]]


def test_steps_keep_the_type(tmp_path):
    steps = from_arrays(tmp_path).filter(lambda batch: batch.columns["label"] > 0).shuffle(window=4, batch_size=2)
    assert steps.schema == SCHEMA
    assert schema_after(lambda batch: batch, SCHEMA) == SCHEMA
    longer = schema_after(lambda batch: batch.with_columns({"user": torch.zeros(0, 2)}), SCHEMA)
    assert dict(longer) == {"user": "float32[2]"}
