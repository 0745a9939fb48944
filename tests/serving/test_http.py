"""A server as its users see it: in a process of its own, asked over HTTP."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from tests.export.movie import eager, request, trained
from tests.patience import PATIENCE_SECONDS
from tests.serving.requests import changed, figures, infer_body


def test_health_and_metadata(client):
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    server = client.get("/v2").json()
    assert (server["name"], server["extensions"]) == ("monolith", ["binary_tensor_data"])
    for path in ("/v2/models/movie", "/v2/models/movie/versions/3"):
        metadata = client.get(path).json()
        assert (metadata["name"], metadata["versions"]) == ("movie", ["3"])
        assert metadata["inputs"] == [
            {"name": "uid", "datatype": "INT64", "shape": [-1]},
            {"name": "mov", "datatype": "INT64", "shape": [-1]},
            {"name": "hour", "datatype": "FP32", "shape": [-1]},
        ]
        assert [output["datatype"] for output in metadata["outputs"]] == ["FP32"]
        assert client.get(f"{path}/ready").json() == {"name": "movie", "ready": True}
    status = client.get("/v1/models/movie").json()["model_version_status"]
    assert [(one["version"], one["state"]) for one in status] == [("3", "AVAILABLE")]


@pytest.mark.parametrize("num_rows", [1, 100])
@pytest.mark.parametrize("path", ["/v2/models/movie/infer", "/v2/models/movie/versions/3/infer"])
def test_infer_says_what_torch_says(client, path, num_rows):
    columns = request(num_rows)
    answer = client.post(path, json=infer_body(columns))
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert (body["model_name"], body["model_version"], body["id"]) == ("movie", "3", "42")
    (output,) = body["outputs"]
    assert (output["shape"], output["datatype"]) == ([num_rows], "FP32")
    np.testing.assert_allclose(output["data"], eager(*trained(), columns), rtol=0, atol=1e-6)


def test_both_forms_of_tensorflow_serving(client):
    columns = request(5)
    expected = eager(*trained(), columns)
    by_column = {name: values.tolist() for name, values in columns.items()}
    by_example = [dict(zip(by_column, values, strict=True)) for values in zip(*by_column.values(), strict=True)]
    for path in ("/v1/models/movie:predict", "/v1/models/movie/versions/3:predict"):
        predictions = client.post(path, json={"instances": by_example}).json()["predictions"]
        np.testing.assert_allclose(predictions, expected, rtol=0, atol=1e-6)
        outputs = client.post(path, json={"signature_name": "serving_default", "inputs": by_column}).json()["outputs"]
        np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-6)


def test_unknown_ids_are_answered(client):
    columns = {**request(2), "uid": np.array([2**63 - 1, -(2**63)])}
    answer = client.post("/v2/models/movie/infer", json=infer_body(columns)).json()
    expected = eager(*trained(), columns)
    np.testing.assert_allclose(answer["outputs"][0]["data"], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the request is no JSON"),
        (b"{", "the request is no JSON"),
        (b"\xff\xfe{", "the request is no JSON"),
        (b"[]", "must be a JSON object, got a list of 0"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"\\ud800": 1}', "half of a surrogate pair at byte 8"),
        (b'{"inputs": [NaN]}', "a value is expected at byte 12"),
        ({}, "'inputs' is missing"),
        ({"inputs": {"uid": [1]}}, "'inputs' must be a list"),
        ({"inputs": [3]}, "expected an object with 'name', got 3"),
        ({"inputs": []}, "input 'uid' is missing; the inputs are uid, mov, hour"),
        ({**infer_body(request(2)), "outputs": [{"name": "score"}]}, "there is no output 'score'"),
        ({"inputs": infer_body(request(2))["inputs"] * 2}, "input 'uid' is given twice"),
        (changed("uid", name="user"), "there is no input 'user'; the inputs are uid, mov, hour"),
        (changed("uid", shape=[3]), "input 'uid': shape [3] does not fit 2 values of data"),
        (changed("uid", shape=[-2]), "shape must be a list of sizes, got [-2]"),
        (changed("uid", shape=[2**40, 2**40]), "does not fit 2 values"),
        (changed("uid", shape=[2, 1]), "input 'uid' must have shape [batch], got [2, 1]"),
        (changed("uid", shape=[3], data=[1, 2, 3]), "counts for all examples, got uid 3, mov 2, hour 2"),
        (changed("uid", shape=None), "'shape' is missing"),
        (changed("uid", data=None), "'data' is missing"),
        (changed("uid", datatype="STRING"), "datatype 'STRING' is unknown; it must be INT64"),
        (changed("uid", datatype="FP32"), "input 'uid' must be int64, got float32"),
        (changed("uid", data=[1, 2.5]), "input 'uid': its data must be INT64 numbers, got 2.5"),
        (changed("uid", data=[True, False]), "must be INT64 numbers, got true"),
        (changed("uid", data=["1", "2"]), 'must be INT64 numbers, got "1"'),
        (changed("uid", data=[1, None]), "must be INT64 numbers, got null"),
        (changed("uid", data=[[1], [2, 3]]), "nested evenly if at all"),
        (changed("uid", data=[1, 2**63]), "input 'uid': a value is too large for INT64"),
        (changed("uid", data=[1, 2**70]), "a value is too large for INT64"),
        (changed("hour", data=[1.0, 1e300]), "input 'hour': a value is too large for FP32"),
    ],
)
def test_a_wrong_request_is_a_400_that_says_what_is_wrong(client, body, message):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post("/v2/models/movie/infer", content=content)
    assert answer.status_code == 400, answer.text
    assert list(answer.json()) == ["error"]
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, 'either "instances"'),
        ({"instances": [], "inputs": {}}, 'either "instances"'),
        ({"instances": [1]}, "instance 0 must be an object of inputs, got 1"),
        ({"instances": [{"uid": 1}]}, 'instance 0 has the inputs "uid"; they must be uid, mov, hour'),
        ({"inputs": {"uid": [1], "mov": [2]}}, "input 'hour' is missing"),
        ({"inputs": {"movie": [1]}}, "there is no input 'movie'"),
        ({"inputs": [1, 2]}, "'inputs' must be an object of columns: uid, mov, hour"),
        ({"inputs": {"uid": 1}}, "'uid' must be a list, got 1"),
        ({"signature_name": "other", "inputs": {}}, "no signature 'other'; the signatures are serving_default"),
        ({"signature_name": 3, "inputs": {}}, "'signature_name' must be a text, got 3"),
    ],
)
def test_a_wrong_request_in_the_other_form(client, body, message):
    answer = client.post("/v1/models/movie:predict", json=body)
    assert answer.status_code == 400, answer.text
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("POST", "/v2/models/music/infer", 404, "there is no model 'music'; this server has 'movie'"),
        ("POST", "/v2/models/movie/versions/2/infer", 404, "no version '2' here; it has '3'"),
        ("POST", "/v1/models/music:predict", 404, "there is no model 'music'"),
        ("GET", "/v2/models/music", 404, "there is no model 'music'"),
        ("GET", "/v2/models/%ED%A0%80", 404, "there is no model"),
        ("GET", "/v3", 404, "Not Found"),
        ("GET", "/v2/models/movie/infer", 405, "Method Not Allowed"),
    ],
)
def test_a_wrong_path_is_an_error_in_json_too(client, method, path, status, message):
    answer = client.request(method, path)
    assert answer.status_code == status
    assert message in answer.json()["error"]


def test_many_clients_at_once_get_their_own_answers(client):
    model, plan, tables = trained()
    expected = {seed: eager(model, plan, tables, request(20, seed)) for seed in range(8)}

    def ask(seed):
        with httpx.Client(base_url=client.base_url, timeout=PATIENCE_SECONDS) as own:
            for _ in range(10):
                answer = own.post("/v2/models/movie/infer", json=infer_body(request(20, seed))).json()
                np.testing.assert_allclose(answer["outputs"][0]["data"], expected[seed], rtol=0, atol=1e-6)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, expected))


def test_metrics(client):
    before = figures(client)
    client.post("/v2/models/movie/infer", json=infer_body(request(7)))
    client.post("/v2/models/movie/infer", content=b"{")
    client.get("/some/thing/that/is/not/there")
    after = figures(client)
    route = 'route="/v2/models/{name}/infer"'

    def grown(name):
        return after[name] - before.get(name, 0)

    assert grown(f'monolith_requests_total{{{route},status="200"}}') == 1
    assert grown(f'monolith_requests_total{{{route},status="400"}}') == 1
    assert grown('monolith_requests_total{route="unknown",status="404"}') == 1
    assert grown(f"monolith_request_seconds_count{{{route}}}") == 2
    assert grown("monolith_predicted_examples_total") == 7
    assert after['monolith_table_rows{model="movie",table="mov"}'] == 200
    assert after['monolith_generation{model="movie"}'] == 4
    assert after['monolith_sequence{model="movie"}'] == 17
    assert after['monolith_model_version{model="movie"}'] == 3
    fresh = 'monolith_freshness_seconds{model="movie"}'  # the server is as old as the tests that asked it before
    assert 0 <= before[fresh] <= after[fresh] < 86_400
