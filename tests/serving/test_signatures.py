"""Signatures over HTTP: each form of request selects one, metadata lists them, an unknown one is refused by name."""

import json
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from monolith.serving.client import AnswerError, ServingClient
from tests.export.two_heads import columns, exported, predicted
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running

PREDICT = "/v1/models/heads:predict"
INFER = "/v2/models/heads/infer"
VECTORS = {"user": "vectors/user", "movie": "vectors/movie"}


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """What the estimator predicts, and a client of a server of its export."""
    folder = tmp_path_factory.mktemp("heads")
    estimator, base = exported(folder)
    with (
        running(base, folder / "ready.json") as (_, ready),
        httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client,
    ):
        yield SimpleNamespace(expected=predicted(estimator), client=client, url=ready["url"])


def as_lists():
    return {name: values.tolist() for name, values in columns().items()}


def infer_body(**fields):
    inputs = [
        {"name": name, "shape": [len(values)], "datatype": "INT64", "data": values}
        for name, values in as_lists().items()
    ]
    return {"inputs": inputs, **fields}


def same(found, expected):
    np.testing.assert_allclose(np.array(found), expected, rtol=0, atol=1e-6)


def test_signature_name_selects_outputs(heads):
    answer = heads.client.post(PREDICT, json={"signature_name": "vectors", "inputs": as_lists()}).json()["outputs"]
    assert list(answer) == list(VECTORS)
    for name, own in VECTORS.items():
        same(answer[name], heads.expected[own])


def test_one_output_of_a_signature_is_a_plain_list(heads):
    examples = [dict(zip(as_lists(), row, strict=True)) for row in zip(*as_lists().values(), strict=True)]
    answer = heads.client.post(PREDICT, json={"signature_name": "logit", "instances": examples})
    same(answer.json()["predictions"], heads.expected["logit/click"])


def test_without_a_name_the_heads_answer(heads):
    for body in ({"inputs": as_lists()}, {"inputs": as_lists(), "signature_name": "serving_default"}):
        answer = heads.client.post(PREDICT, json=body).json()["outputs"]
        assert list(answer) == ["click", "buy"]
        same(answer["buy"], heads.expected["buy"])


def test_the_open_inference_protocol_selects_one_by_a_parameter(heads):
    answer = heads.client.post(INFER, json=infer_body(parameters={"signature": "vectors"})).json()["outputs"]
    assert [output["name"] for output in answer] == list(VECTORS.values())
    same(np.array(answer[0]["data"]).reshape(answer[0]["shape"]), heads.expected["vectors/user"])


def test_without_a_parameter_it_has_all_outputs(heads):
    answer = heads.client.post(INFER, json=infer_body()).json()["outputs"]
    assert [output["name"] for output in answer] == list(heads.expected)
    answer = heads.client.post(INFER, json=infer_body(outputs=[{"name": "vectors/movie"}])).json()["outputs"]
    assert [output["name"] for output in answer] == ["vectors/movie"]


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (PREDICT, {"signature_name": "user", "inputs": {}}, "no signature 'user'; the signatures are"),
        (INFER, infer_body(parameters={"signature": "user"}), "no signature 'user'; the signatures are"),
        (INFER, infer_body(parameters={"signature": 1}), "'signature' must be a text, got 1"),
        (
            INFER,
            infer_body(parameters={"signature": "vectors"}, outputs=[{"name": "click"}]),
            "no output 'click'; the outputs are vectors/user, vectors/movie",
        ),
    ],
)
def test_an_unknown_one_is_a_400_with_the_known_ones(heads, path, body, message):
    answer = heads.client.post(path, json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_both_forms_of_metadata_list_them(heads):
    signatures = heads.client.get("/v2/models/heads").json()["signatures"]
    assert signatures == {
        "serving_default": {"outputs": ["click", "buy"]},
        "vectors": {"outputs": ["vectors/user", "vectors/movie"], "head_type": "embedding"},
        "logit": {"outputs": ["logit/click"], "head_name": "click", "head_type": "classification"},
    }
    for path in ("/v1/models/heads/metadata", "/v1/models/heads/versions/1/metadata"):
        found = heads.client.get(path).json()
        assert found["model_spec"] == {"name": "heads", "signature_name": "", "version": "1"}
        listed = found["metadata"]["signature_def"]["signature_def"]
        assert list(listed) == list(signatures)
        user = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "3", "name": ""}]}}
        user["tensor_shape"]["unknown_rank"] = False
        assert listed["vectors"]["outputs"]["user"] == {**user, "name": "vectors/user"}
        assert listed["logit"]["inputs"]["uid"]["dtype"] == "DT_INT64"


def test_the_description_of_the_server_has_them(heads):
    described = json.dumps(heads.client.get("/openapi.json").json())
    assert '{"enum": ["serving_default", "vectors", "logit"]}' in described


def test_the_client_asks_for_one(heads):
    with ServingClient(heads.url, "heads", timeout_seconds=PATIENCE_SECONDS) as client:
        found = client.predict(columns(), signature="vectors")
        assert list(found) == list(VECTORS.values())
        same(found["vectors/user"], heads.expected["vectors/user"])
        with pytest.raises(AnswerError, match="no signature 'user'"):
            client.predict(columns(), signature="user")
