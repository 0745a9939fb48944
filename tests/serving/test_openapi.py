"""What /openapi.json says of the server is what the server does."""

import os
import re
import subprocess
import sys

import pytest

from monolith.serving.api.api_page import api_page
from tests.export.movie import request
from tests.patience import PATIENCE_SECONDS
from tests.serving.requests import INFER, PREDICT, infer_body
from tests.serving.running_server import ROOT

PATHS = {
    "/v2": {"get"},
    "/v2/health/live": {"get"},
    "/v2/health/ready": {"get"},
    "/metrics": {"get"},
    "/v2/repository/index": {"post"},
    "/v2/repository/models/{name}/load": {"post"},
    "/v2/repository/models/{name}/unload": {"post"},
    **{
        path.replace("VERSION", version): methods
        for version in ("", "/versions/{version}")
        for path, methods in {
            "/v2/models/{name}VERSION": {"get"},
            "/v2/models/{name}VERSION/ready": {"get"},
            "/v2/models/{name}VERSION/infer": {"post"},
            "/v1/models/{name}VERSION": {"get"},
            "/v1/models/{name}VERSION/metadata": {"get"},
            "/v1/models/{name}VERSION:predict": {"post"},
        }.items()
    },
}


def test_every_endpoint_is_described(client):
    described = client.get("/openapi.json").json()["paths"]
    assert {path: set(methods) for path, methods in described.items()} == PATHS
    for path, methods in described.items():
        for operation in methods.values():
            names = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"}
            assert names == {name for name in ("name", "version") if f"{{{name}}}" in path}
            assert operation["summary"]


def test_every_path_answers_as_described(client):
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        where = path.format(name="movie", version="3")
        body = {INFER: infer_body(request(1)), PREDICT: {"instances": []}}.get(where.replace("/versions/3", ""))
        (method,) = methods
        answer = client.request(method, where, json=body)
        # This server lets no client load or unload.
        status = 403 if path.endswith("load") else 200
        assert answer.status_code == status, answer.text
        described = methods[method]["responses"][str(status)]["content"]
        assert answer.headers["Content-Type"].partition(";")[0] in described
        if methods[method]["responses"].get("404") and status == 200:
            assert client.request(method, path.format(name="nobody", version="3"), json=body).status_code == 404


def test_the_inputs_of_the_model_are_described(client):
    paths = client.get("/openapi.json").json()["paths"]
    content = paths["/v2/models/{name}/infer"]["post"]["requestBody"]["content"]
    columns, records = content["application/json"]["schema"]["properties"]["inputs"]["anyOf"]
    tensors = columns["items"]["oneOf"]
    found = {one["properties"]["name"]["const"]: one["properties"]["datatype"]["const"] for one in tensors}
    assert found == {"uid": "INT64", "mov": "INT64", "hour": "FP32"}
    assert records["items"]["properties"]["name"] == {"const": "examples"}
    assert {parameter["schema"]["enum"][0] for parameter in paths["/v2/models/{name}"]["get"]["parameters"]} == {
        "movie"
    }


def test_a_page_for_people_shows_all_of_it_without_scripts(client):
    answer = client.get("/docs")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    page = answer.text
    for path, methods in PATHS.items():
        assert f"<code>{path}</code>" in page
        assert all(f">{method.upper()}</span>" in page for method in methods)
    for name in ("uid", "mov", "hour", "pred", "movie"):
        assert f"<code>{name}</code>" in page
    assert "tf_example" in page
    assert not re.search(r"<script|https?://|src=|@import", page)


def test_names_of_models_are_text_on_the_page():
    evil = "<script>alert(1)</script>"
    metadata = {
        "versions": [evil],
        "records": evil,
        "inputs": [{"name": evil, "datatype": evil, "shape": [-1]}],
        "outputs": [],
    }
    described = {
        "info": {"title": evil},
        "paths": {evil: {evil: {"summary": evil, "responses": {evil: {"description": evil}}}}},
    }
    assert "<script" not in api_page(described, {evil: metadata})


@pytest.mark.services
def test_a_fuzzer_that_reads_the_description_finds_no_server_error(client, tmp_path):
    """schemathesis: no 5xx, and no status, type or form of answer that is not described."""
    checks = ("not_a_server_error", "status_code_conformance", "content_type_conformance")
    checks += ("response_headers_conformance", "response_schema_conformance", "unsupported_method")
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        str(client.base_url.join("/openapi.json")),
        "--no-color",
    ]
    command += ["--max-examples", "50", "--seed", "1", "--phases", "examples,coverage,fuzzing"]
    done = subprocess.run(
        [*command, *(f"--checks={check}" for check in checks)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    count = sum(len(methods) for methods in client.get("/openapi.json").json()["paths"].values())
    assert f"{count}/{count}" in done.stdout, done.stdout[:2000]
