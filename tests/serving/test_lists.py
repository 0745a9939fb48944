"""Lists of ids from training to a server's answer: what is served is what the estimator predicts."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import monolith as mono
from monolith.export import load_export
from monolith.export.serving_model import Question
from monolith.export.signature import NamedOutputs, Signature, TensorSpec
from monolith.model.extra_outputs import SERVING_DEFAULT
from monolith.serving.forms import predict_form
from monolith.tensors import Ragged
from tests.export.taste import (
    DATATYPES,
    LISTS,
    NUM_IDS,
    Taste,
    events,
    instances,
    predicted,
    request_columns,
    tensors,
    trained,
)
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running

INFER = "/v2/models/taste/infer"
PREDICT = "/v1/models/taste:predict"
IDS = st.integers(-3, NUM_IDS + 3)
EXAMPLE = st.fixed_dictionaries(
    {name: IDS for name in ("uid", "mov")}
    | {name: st.lists(IDS, max_size=7) for name in LISTS}
    | {"hour": st.floats(0, 1, width=32)}
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An estimator and the version that it exported."""
    folder = tmp_path_factory.mktemp("taste")
    estimator = trained(folder / "model", events(640))
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


def infer_body(columns: dict[str, Any]) -> dict[str, Any]:
    return {
        "inputs": [
            {
                "name": name,
                "shape": list(values.shape),
                "datatype": "FP32" if name == "hour" else "INT64",
                "data": values.tolist(),
            }
            for name, values in tensors(columns).items()
        ]
    }


def binary_body(columns: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    body, parts = infer_body(columns), tensors(columns)
    for tensor in body["inputs"]:
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": parts[tensor["name"]].nbytes}
    head = json.dumps(body).encode()
    tail = b"".join(values.tobytes() for values in parts.values())
    return head + tail, {"Inference-Header-Content-Length": str(len(head))}


def answers(client: httpx.Client, columns: dict[str, Any]) -> dict[str, np.ndarray]:
    """The predictions by form of the request."""
    content, headers = binary_body(columns)
    found = {
        "instances": client.post(PREDICT, json={"instances": instances(columns)}),
        "inputs": client.post(PREDICT, json={"inputs": request_columns(columns)}),
        "v2": client.post(INFER, json=infer_body(columns)),
        "v2 binary": client.post(INFER, content=content, headers=headers),
    }
    for form, answer in found.items():
        assert answer.status_code == 200, (form, answer.text)
    keys = {"instances": "predictions", "inputs": "outputs"}
    return {
        form: np.array(answer.json()[keys[form]] if form in keys else answer.json()["outputs"][0]["data"])
        for form, answer in found.items()
    }


def test_every_form_of_request_says_what_the_estimator_predicts(exported, client):
    columns = events(200, seed=3)
    expected = predicted(exported[0], columns)
    assert expected.std() > 0.01
    for form, found in answers(client, columns).items():
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, err_msg=form)


@pytest.mark.parametrize("name", LISTS)
def test_every_list_counts(exported, client, name):
    """A mean, a sum and a sequence: each alone moves the predictions, as it does in the estimator."""
    columns = events(20)
    whole = answers(client, columns)["instances"]
    columns[name] = [[] for _ in range(20)]
    found = answers(client, columns)
    np.testing.assert_allclose(found["v2 binary"], predicted(exported[0], columns), rtol=0, atol=1e-6)
    assert np.abs(found["instances"] - whole).max() > 1e-3


def test_empty_lists_alone_are_answered(exported, client):
    columns = {**events(2), **{name: [[], []] for name in LISTS}}
    expected = predicted(exported[0], columns)
    for form, found in answers(client, columns).items():
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, err_msg=form)


@settings(max_examples=30, deadline=None)
@given(st.lists(EXAMPLE, min_size=1, max_size=9))
def test_any_lists_are_served_as_predicted(exported, examples):
    columns: dict[str, Any] = {name: [one[name] for one in examples] for name in DATATYPES}
    columns["label"] = [0.0] * len(examples)
    served = load_export(exported[1])
    given_as = {
        "lists": request_columns(columns),
        "ragged": {
            name: Ragged.from_lists(columns[name], torch.int64) if name in LISTS else values
            for name, values in request_columns(columns).items()
        },
    }
    expected = predicted(exported[0], columns)
    for form, inputs in given_as.items():
        inputs["hour"] = np.array(columns["hour"], np.float32)
        (found,) = served.predict(inputs).values()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, err_msg=form)


def test_the_metadata_have_values_and_lengths(client):
    inputs = {one["name"]: one for one in client.get("/v2/models/taste").json()["inputs"]}
    assert list(inputs) == ["uid", "mov", *(f"{name}{part}" for name in LISTS for part in ("", ":lengths")), "hour"]
    assert inputs["genres"] == {"name": "genres", "datatype": "INT64", "shape": [-1]}
    assert inputs["genres:lengths"] == {"name": "genres:lengths", "datatype": "INT64", "shape": [-1]}


def test_the_description_for_programs_has_lists(client):
    paths = client.get("/openapi.json").json()["paths"]
    forms = paths["/v1/models/{name}:predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    example = forms[0]["properties"]["instances"]["items"]["properties"]
    assert (example["genres"]["type"], example["genres"]["items"]["type"]) == ("array", "integer")
    assert "minItems" not in example["genres"]
    content = paths["/v2/models/{name}/infer"]["post"]["requestBody"]["content"]
    columns, _ = content["application/json"]["schema"]["properties"]["inputs"]["anyOf"]  # or records
    tensors_described = columns["items"]["oneOf"]
    assert "genres:lengths" in [one["properties"]["name"]["const"] for one in tensors_described]


@pytest.mark.parametrize(
    ("genres", "message"),
    [
        (
            [1, [2]],
            "input 'genres': its data must be a list of INT64 numbers per example, got 1; put a single value in",
        ),
        ([None, [2]], "got null; an example without values has an empty list, []"),
        ([[[1]], [2]], "nested once too often"),
        ([["7"], [2]], 'its data must be INT64 numbers, got "7"; send a number without quotes'),
        ([[1.5], []], "its data must be INT64 numbers, got 1.5"),
        ([[2**63], []], "a value is too large for INT64"),
        ([{}, []], "a list of INT64 numbers per example, got an object"),
    ],
)
@pytest.mark.parametrize("form", ["instances", "inputs"])
def test_lists_that_are_none_are_refused(client, form, genres, message):
    columns = {**events(2), "genres": genres}
    body = {"instances": instances(columns)} if form == "instances" else {"inputs": request_columns(columns)}
    answer = client.post(PREDICT, json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert "input 'genres': " in answer.json()["error"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"genres:lengths": {"data": [1, 1]}}, "input 'genres': its lengths must be numbers from 0 on that add up to"),
        ({"genres:lengths": {"data": [-1, 4]}}, "add up to its 3 values, got [-1, 4]"),
        ({"genres:lengths": {"data": [2**62, 2**62]}}, "its lengths must be numbers from 0 on"),
        ({"genres:lengths": {"data": [1, 1, 1], "shape": [3]}}, "same number of rows"),
        ({"genres:lengths": None}, "input 'genres:lengths' is missing: the lists of 'genres' are two tensors"),
        ({"genres": None}, "input 'genres' is missing: the lists of 'genres' are two tensors"),
        ({"genres": None, "genres:lengths": None}, "input 'genres' is missing; the inputs are"),
        ({"genres:lengths": {"data": [1.0, 2.0], "datatype": "FP32"}}, "input 'genres:lengths' must be int64"),
        ({"genres": {"data": [[1, 2, 3]], "shape": [1, 3]}}, "input 'genres' must have shape [batch], got [1, 3]"),
        ({"genres": {"datatype": "BYTES", "data": ["a", "b", "c"]}}, "must be INT64, got BYTES; send numbers"),
    ],
)
def test_tensors_that_make_no_lists_are_refused(client, changes, message):
    body = infer_body({**events(2), "genres": [[1], [2, 3]]})
    for name, change in changes.items():
        tensor = next(one for one in body["inputs"] if one["name"] == name)
        if change is None:
            body["inputs"].remove(tensor)
        else:
            tensor.update(change)
    answer = client.post(INFER, json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_few_bytes_per_example_cannot_take_all_memory(exported, monkeypatch):
    """An example with empty lists is three bytes, and its sequences are as long as any."""
    served = load_export(exported[1])
    empty = {name: [[] for _ in range(11)] for name in LISTS}
    columns = request_columns(events(11) | empty) | {"hour": np.zeros(11, np.float32)}
    monkeypatch.setattr("monolith.export.serving_model.MAX_FLOATS", 28 * 11)
    served.predict(columns)
    monkeypatch.setattr("monolith.export.serving_model.MAX_FLOATS", 28 * 11 - 1)
    with pytest.raises(ValueError, match=r"11 examples at a time would look up 308 floats, 307 at most"):
        served.predict(columns)


def test_many_ids_in_one_example_cannot_take_all_memory(exported, monkeypatch):
    served = load_export(exported[1])
    columns = request_columns(events(1) | {"tags": [[1] * 100], "genres": [[]], "history": [[]]})
    monkeypatch.setattr("monolith.export.serving_model.MAX_FLOATS", 102 * 4 - 1)
    with pytest.raises(ValueError, match=r"1 examples at a time would look up 408 floats, 407 at most"):
        served.predict(columns | {"hour": np.zeros(1, np.float32)})


def test_a_server_follows_a_live_run_of_lists(tmp_path):
    """Deltas bring the rows of pooled and of sequence features."""

    def live(**more):
        config = mono.RunConfig(
            model_dir=tmp_path / "model", export_base=str(tmp_path / "versions"), log_step_count_steps=0, **more
        )
        return mono.Estimator(Taste, config, params=events(640))

    live().train(steps=1)
    with running(tmp_path / "versions", tmp_path / "ready.json", "--sync-address", "127.0.0.1:0") as (_, ready):
        estimator = live(sync_targets=[ready["sync_address"]])
        estimator.train()
        columns = events(50)
        expected = predicted(estimator, columns)
        with httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client:
            answer = client.post("/v1/models/taste:predict", json={"instances": instances(columns)})
        np.testing.assert_allclose(answer.json()["predictions"], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", ["instances", "inputs"])
def test_a_model_of_one_input_takes_plain_lists(form):
    signature = Signature((TensorSpec("tags", "INT64", (-1, -1)),), ())
    model: Any = SimpleNamespace(
        signature=signature,
        signatures={SERVING_DEFAULT: NamedOutputs({"pred": "pred"})},
        check=lambda columns: Question(signature.check(columns), 2),
    )
    read = predict_form.read_request(model, json.dumps({form: [[1, 2], []]}).encode())
    tags = read.question.columns["tags"]
    assert isinstance(tags, Ragged)
    assert tags.to_list() == [[1, 2], []]
