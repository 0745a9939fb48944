"""Texts in requests: a server makes the same ids of them that the data had."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import torch

from monolith.export import load_export
from monolith.tensors import Ragged
from tests.export.taste import events, predicted, request_columns, tensors, texts_of, trained, with_text_ids
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running

INFER = "/v2/models/taste/infer"
PREDICT = "/v1/models/taste:predict"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An estimator, and its version in which uid and tags are texts."""
    folder = tmp_path_factory.mktemp("texts")
    columns = events(640)
    estimator = trained(folder / "model", columns | texts_of(columns))
    return estimator, estimator.export_saved_model(export_base=folder / "versions", name="taste")


@pytest.fixture(scope="module")
def client(exported: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server of that version."""
    ready_file = tmp_path_factory.mktemp("ready") / "ready.json"
    with (
        running(exported[1].parent, ready_file) as (_, ready),
        httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client,
    ):
        yield client


def inputs_of(columns: dict[str, Any]) -> dict[str, list[Any]]:
    return request_columns(columns) | texts_of(columns)


def infer_body(columns: dict[str, Any], *, binary: bool = False) -> tuple[bytes, dict[str, str]]:
    """A request of the Open Inference Protocol, whose texts are JSON, or as Triton's client sends them."""
    texts = texts_of(columns)
    given = {name: values.tolist() for name, values in tensors(columns).items()}
    given |= {"uid": texts["uid"], "tags": [one for row in texts["tags"] for one in row]}
    inputs, tail = [], b""
    for name, values in given.items():
        datatype = "BYTES" if name in texts else "FP32" if name == "hour" else "INT64"
        tensor = {"name": name, "shape": [len(values)], "datatype": datatype}
        if binary and name in texts:
            data = b"".join(struct.pack("<I", len(one.encode())) + one.encode() for one in values)
            tensor["parameters"] = {"binary_data_size": len(data)}
            tail += data
        else:
            tensor["data"] = values
        inputs.append(tensor)
    head = json.dumps({"inputs": inputs}).encode()
    return head + tail, {"Inference-Header-Content-Length": str(len(head))} if binary else {}


def test_every_form_takes_texts(exported, client):
    columns = events(100, seed=2)
    expected = predicted(exported[0], columns | texts_of(columns))
    assert expected.std() > 0.01
    inputs = inputs_of(columns)
    by_example = [dict(zip(inputs, values, strict=True)) for values in zip(*inputs.values(), strict=True)]
    found = [
        client.post(PREDICT, json={"instances": by_example}).json()["predictions"],
        client.post(PREDICT, json={"inputs": inputs}).json()["outputs"],
    ]
    for binary in (False, True):
        content, headers = infer_body(columns, binary=binary)
        answer = client.post(INFER, content=content, headers=headers)
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["outputs"][0]["data"])
    for predictions in found:
        np.testing.assert_allclose(predictions, expected, rtol=0, atol=1e-6)


def test_a_served_model_in_python_takes_texts_and_their_ids(exported):
    columns = events(10)
    served = load_export(exported[1])
    expected = predicted(exported[0], columns | texts_of(columns))
    hour = {"hour": columns["hour"]}
    ids = {
        "uid": torch.tensor(with_text_ids(columns)["uid"]),
        "tags": Ragged.from_lists(with_text_ids(columns)["tags"], torch.int64),
    }
    for inputs in (inputs_of(columns), request_columns(columns) | ids):
        (found,) = served.predict(inputs | hour).values()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_the_metadata_call_them_bytes(client):
    inputs = {one["name"]: one for one in client.get("/v2/models/taste").json()["inputs"]}
    assert inputs["uid"] == {"name": "uid", "datatype": "BYTES", "shape": [-1]}
    assert inputs["tags"]["datatype"] == "BYTES"
    assert inputs["tags:lengths"]["datatype"] == "INT64"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uid": [7.5, "a"]}, "input 'uid': its data must be texts, got 7.5; put it in quotes"),
        ({"mov": [5, None]}, "'mov': its data must be INT64 numbers, got null; send the number that stands in for"),
        ({"tags": [["a"], ["b", 8.5]]}, "input 'tags': its data must be texts, got 8.5; put it in quotes"),
        ({"tags": ["a", "b"]}, 'a list of texts per example, got "a"; put a single value in a list'),
        ({"mov": ["a", "b"]}, "input 'mov': its data must be INT64 numbers, got \"a\"; send a number without quotes"),
        ({"mov": ["a", "b"]}, "give the column the type hash where the data is read"),
    ],
)
def test_a_number_for_a_text_and_a_text_for_a_number(client, change, message):
    answer = client.post(PREDICT, json={"inputs": inputs_of(events(2)) | change})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_whole_number_counts_as_its_text(exported, client):
    """As it does in data; in a process and over HTTP."""
    changes = {"number": {"uid": [7, 9]}, "text": {"uid": ["7", "9"]}, "unknown": {"uid": ["x", "y"]}}
    inputs = inputs_of(events(2))
    hour = {"hour": np.array(inputs["hour"], np.float32)}
    served = load_export(exported[1])
    over_http = {
        name: client.post(PREDICT, json={"inputs": inputs | change}).json()["outputs"]
        for name, change in changes.items()
    }
    in_process = {name: served.predict(inputs | hour | change)["pred"] for name, change in changes.items()}
    for found in (over_http, in_process):
        np.testing.assert_array_equal(found["number"], found["text"])
        assert np.abs(np.subtract(found["number"], found["unknown"])).min() > 1e-4


def test_null_reads_as_a_missing_value_in_training(exported, client):
    columns = events(3)
    columns |= texts_of(columns)
    missing = columns | {"uid": [columns["uid"][0], None, None], "hour": [0.25, None, 0.75]}
    missing["tags"] = [None, *columns["tags"][1:]]
    expected = predicted(exported[0], missing)
    stated = columns | {"uid": [columns["uid"][0], "7", "7"], "hour": [0.25, 0.5, 0.75]}
    stated["tags"] = [[], *columns["tags"][1:]]
    np.testing.assert_array_equal(expected, predicted(exported[0], stated))
    inputs = request_columns(missing)
    by_example = [dict(zip(inputs, values, strict=True)) for values in zip(*inputs.values(), strict=True)]
    body = json.loads(infer_body(events(3))[0])
    given = {one["name"]: one for one in body["inputs"]}
    given["uid"]["data"], given["hour"]["data"] = missing["uid"], missing["hour"]
    given["tags"].update(data=[one for row in stated["tags"] for one in row])
    given["tags"]["shape"] = [len(given["tags"]["data"])]
    given["tags:lengths"]["data"] = [len(row) for row in stated["tags"]]
    found = [
        client.post(PREDICT, json={"instances": by_example}).json()["predictions"],
        client.post(PREDICT, json={"inputs": inputs}).json()["outputs"],
        client.post(INFER, json=body).json()["outputs"][0]["data"],
    ]
    for predictions in found:
        np.testing.assert_allclose(predictions, expected, rtol=0, atol=1e-6)


def test_numbers_under_another_datatype_are_refused(client):
    body = json.loads(infer_body(events(2))[0])
    body["inputs"][0].update(datatype="INT64", data=[1, 2])
    answer = client.post(INFER, json=body)
    assert answer.status_code == 400
    assert "input 'uid' must be BYTES, got INT64; send texts" in answer.json()["error"]


def test_binary_texts_that_end_too_early_are_refused(client):
    columns = events(2)
    content, headers = infer_body(columns, binary=True)
    size = int(headers["Inference-Header-Content-Length"])
    # The length of the first text is more than all that follows.
    broken = content[:size] + struct.pack("<I", 2**31) + content[size + 4 :]
    answer = client.post(INFER, content=broken, headers=headers)
    assert answer.status_code == 400
    assert "input 'uid': the bytes end inside text 0" in answer.json()["error"]
