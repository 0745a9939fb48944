"""Serialized records as input: over HTTP in both forms, and by import_saved_model, they give what columns give."""

import base64
import json
import struct
from pathlib import Path

import httpx
import numpy as np
import pytest

from monolith.data.parse import ExampleBatchParser, ExampleParser, InstanceParser, TfExampleParser
from monolith.data.parse.record_reader import MAX_VALUES
from monolith.errors import CorruptFileError
from monolith.export import import_saved_model, load_export
from monolith.export.description import Description
from monolith.protos import example_pb2, feature_pb2, instance_pb2, tf_example_pb2
from monolith.serving.forms.record_values import MAX_RECORDS
from tests.export.crafted import rewrite
from tests.export.movie import export, request
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running

TYPES = {"uid": "int64", "mov": "int64", "hour": "float32"}
FILL = {"hour": 0.25}
COLUMNS = request(6)
ROWS = [
    dict(zip(COLUMNS, row, strict=True)) for row in zip(*(values.tolist() for values in COLUMNS.values()), strict=True)
]


def tf_example(row):
    made = tf_example_pb2.Example()
    for name, value in row.items():
        feature = made.features.feature[name]
        (feature.float_list if name == "hour" else feature.int64_list).value.append(value)
    return made.SerializeToString()


def feature(name, *values):
    made = example_pb2.Feature()
    (made.float_list if name == "hour" else made.int64_list).value.extend(values)
    return made


def example(row):
    made = example_pb2.Example()
    for name, value in row.items():
        made.named_feature.add(name=name, feature=feature(name, value))
    return made.SerializeToString()


def example_batch(rows):
    """The user is sent once, as in the original's batches."""
    made = example_pb2.ExampleBatch(batch_size=len(rows))
    for name in rows[0]:
        shared = name == "uid"
        kind = example_pb2.SHARED if shared else example_pb2.INDIVIDUAL
        column = made.named_feature_list.add(name=name, type=kind)
        column.feature.extend(feature(name, row[name]) for row in (rows[:1] if shared else rows))
    return made.SerializeToString()


def instance(row):
    numbers = [feature_pb2.Feature(name=name, int64_value=[row[name]]) for name in ("uid", "mov") if name in row]
    hour = [feature_pb2.Feature(name="hour", float_value=[row["hour"]])] if "hour" in row else []
    return instance_pb2.Instance(feature=[*numbers, *hour]).SerializeToString()


SCHEMAS = {
    "plain": {},  # its events were no records
    "tf_example": {"schema": TfExampleParser(TYPES, missing=FILL).schema},
    "example": {"schema": ExampleParser(TYPES, missing=FILL).schema},
    "example_batch": {"schema": ExampleBatchParser(TYPES, missing=FILL).schema},
    "instance": {"schema": InstanceParser(TYPES, missing=FILL).schema},
}
MAKERS = {"plain": tf_example, "tf_example": tf_example, "example": example, "instance": instance}
NAMES = list(SCHEMAS)


def records(name, rows=ROWS):
    return (
        [example_batch(rows[:3]), example_batch(rows[3:])]
        if name == "example_batch"
        else [MAKERS[name](row) for row in rows]
    )


def answered_rows(name):
    """What the records say, row by row: in a batch, all rows have the first one's user."""
    if name != "example_batch":
        return COLUMNS
    return {**COLUMNS, "uid": np.repeat(COLUMNS["uid"][[0, 3]], 3)}


def b64(record):
    return base64.b64encode(record).decode()


@pytest.fixture(scope="module")
def bases(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("records")
    for name, options in SCHEMAS.items():
        export(folder / name, **options)
    return {name: folder / name for name in SCHEMAS}


@pytest.fixture(scope="module")
def client(bases, tmp_path_factory):
    options = [part for name, base in bases.items() for part in ("--model", f"{name}={base}")]
    with running(None, tmp_path_factory.mktemp("ready") / "ready.json", *options) as (_, ready):
        with httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client:
            yield client


@pytest.mark.parametrize("name", NAMES)
def test_records_give_what_columns_give_whatever_way_they_come(client, bases, name):
    columns = {one: values.tolist() for one, values in answered_rows(name).items()}
    predict, infer = f"/v1/models/{name}:predict", f"/v2/models/{name}/infer"
    expected = client.post(predict, json={"inputs": columns}).json()["outputs"]
    items = [{"b64": b64(record)} for record in records(name)]
    for body in (
        {"instances": items, "signature_name": "serving_default"},
        {"instances": [{"examples": item} for item in items]},
    ):
        assert client.post(predict, json=body).json() == {"predictions": expected}
    for inputs in (items, {"examples": items}):
        assert client.post(predict, json={"inputs": inputs}).json() == {"outputs": expected}
    tensor = {"name": "examples", "shape": [len(items)], "datatype": "BYTES"}
    for data in ([item["b64"] for item in items], items):
        answer = client.post(infer, json={"inputs": [{**tensor, "data": data}]}).json()
        assert answer["outputs"][0]["data"] == expected
    framed = b"".join(struct.pack("<I", len(record)) + record for record in records(name))
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(framed)}}]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    assert client.post(infer, content=head + framed, headers=headers).json()["outputs"][0]["data"] == expected
    with import_saved_model(bases[name]) as imported:
        np.testing.assert_allclose(imported(records(name))["output"], expected, rtol=1e-6)
    assert client.get(f"/v2/models/{name}").json()["records"] == ("tf_example" if name == "plain" else name)


@pytest.mark.parametrize("name", ["tf_example", "example", "instance"])
def test_a_feature_that_a_record_lacks_reads_as_in_training(client, name):
    rows = [{"uid": 1, "mov": 2}, {"uid": 1, "mov": 2, "hour": 0.25}]
    body = {"instances": [{"b64": b64(MAKERS[name](row))} for row in rows]}
    lacking, given = client.post(f"/v1/models/{name}:predict", json=body).json()["predictions"]
    assert lacking == given


DAMAGED = {"instances": [{"b64": b64(tf_example(ROWS[0]))}, {"b64": b64(b"\x0a\xff")}]}


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("plain", DAMAGED, "record 1 is damaged at byte 1"),
        ("example", {"instances": [{"b64": b64(b"\x0a\x05ab")}]}, "record 0 is damaged at byte"),
        ("instance", {"instances": [{"b64": b64(b"garbage")}]}, "record 0 is damaged at byte"),
        ("example_batch", {"instances": [{"b64": b64(b"\x18\xff\xff\xff\x7f")}]}, "expected a batch_size that 5 bytes"),
        ("plain", {"instances": [{"b64": "no base64!"}]}, "record 0 is no base64"),
        ("plain", {"instances": [{"b64": "CgA"}]}, "record 0 is no base64"),
        ("plain", {"instances": [{"b64": 7}]}, "record 0 must be"),
        ("plain", {"instances": [{"b64": ""}, {"uid": 1}]}, "record 1 must be"),
        ("plain", {"inputs": {"examples": {"b64": ""}}}, "'examples' must be a list"),
        ("plain", {"instances": [{"b64": b64(tf_example({"hour": float("nan")}))}]}, "'hour' of a record is NaN"),
        ("plain", {"instances": [{"b64": ""}] * (MAX_RECORDS + 1)}, f"at most {MAX_RECORDS} records"),
    ],
)  # fmt: skip
def test_a_wrong_record_is_a_400_that_names_it(client, name, body, words):
    answer = client.post(f"/v1/models/{name}:predict", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert client.get("/v2/health/ready").status_code == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"datatype": "INT64", "data": [1]}, "must be BYTES"),
        ({"shape": [2]}, "does not fit 1 values"),
        ({"data": [3]}, "record 0 must be"),
        ({"data": None}, "'data' is missing"),
    ],
)
def test_a_wrong_tensor_of_records_is_a_400(client, change, words):
    tensor = {"name": "examples", "shape": [1], "datatype": "BYTES", "data": [b64(tf_example(ROWS[0]))], **change}
    tensor = {name: value for name, value in tensor.items() if value is not None}
    answer = client.post("/v2/models/plain/infer", json={"inputs": [tensor]})
    assert answer.status_code == 400
    assert words in answer.json()["error"]


@pytest.mark.parametrize("framed", [b"\x05\x00\x00\x00ab", b"\x05\x00", b"\xff\xff\xff\xff"])
def test_binary_records_that_end_too_early_are_a_400(client, framed):
    tensor = {"name": "examples", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": len(framed)}}
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = client.post("/v2/models/plain/infer", content=head + framed, headers=headers)
    assert answer.status_code == 400
    assert "record 0 is longer than the binary data" in answer.json()["error"]


def test_a_small_batch_that_stands_for_gigabytes_is_refused(client):
    """One shared list of ids for very many rows: a few hundred kilobytes that would be gigabytes in memory."""
    made = example_pb2.ExampleBatch(batch_size=100_000)
    made.named_feature_list.add(name="uid", type=example_pb2.SHARED).feature.append(feature("uid", *range(50_000)))
    assert 100_000 * made.ByteSize() > MAX_VALUES
    body = {"instances": [{"b64": b64(made.SerializeToString())}]}
    answer = client.post("/v1/models/example_batch:predict", json=body)
    assert answer.status_code == 400
    assert "100000 examples in records may take" in answer.json()["error"]


def test_what_an_export_says_of_records_is_checked(tmp_path):
    path = export(tmp_path, **SCHEMAS["example"])
    described = Description.read(path).records
    assert described.format == "example"
    assert [column.name for column in described.columns] == ["uid", "mov", "hour"]
    assert described.columns[2].missing == 0.25
    for change in (
        {"format": "pickle", "columns": []},
        {"format": "example", "columns": [{"name": "uid", "dtype": "int64"}]},
        {"format": "example", "columns": 3},
        {"format": "example", "columns": [{"name": "uid", "dtype": "int64", "code": "x"}]},
        {"format": "example", "columns": [{"name": "uid", "dtype": "int64", "source": "file"}]},
        {"format": "example", "columns": [{"name": "uid", "dtype": "int64", "slot": "x"}]},
        "example",
    ):
        rewrite(path, lambda fields, change=change: fields.update(records=change))
        with pytest.raises(CorruptFileError, match=r"model\.json"):
            load_export(path)
