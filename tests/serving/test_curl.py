"""curl, as the pages show it, against TensorFlow Serving's form and the repository requests."""

import gzip
import json
import shutil
import subprocess
from base64 import b64encode

import numpy as np
import pytest

from tests.export.movie import eager, export, request, trained
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running

pytestmark = pytest.mark.services

TOKEN = "the-token-that-curl-sends"
COLUMNS = {name: values.tolist() for name, values in request(5).items()}
INSTANCES = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Two models behind a token, which clients may load and unload."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    folder = tmp_path_factory.mktemp("curl")
    tokens = folder / "tokens"
    tokens.write_text(TOKEN)
    tokens.chmod(0o600)
    options = ["--token-file", str(tokens), "--allow-control", "--poll-seconds", "0"]
    for name in ("movie", "music"):
        export(folder / name, 3, name=name)
        options += ["--model", f"{name}={folder / name}"]
    with running(None, folder / "ready.json", *options) as (_, ready):
        yield ready["url"]


def curl(url: str, path: str, *options: str, body: object = None, token: str = TOKEN) -> tuple[int, dict]:
    """Return status and JSON of an answer."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    data = [] if body is None else ["--data-binary", "@-"]
    command = ["curl", "-s", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {token}", *data, *options]
    done = subprocess.run(
        [*command, f"{url}{path}"], input=content, capture_output=True, check=True, timeout=PATIENCE_SECONDS
    )
    answer, _, status = done.stdout.decode().rpartition("\n")
    return int(status), json.loads(answer) if answer else {}


@pytest.mark.parametrize("name", ["movie", "music"])
def test_predictions_in_all_forms(url, name):
    expected = eager(*trained(), request(5))
    path = f"/v1/models/{name}:predict"
    for body, found_in in (({"inputs": COLUMNS}, "outputs"), ({"instances": INSTANCES}, "predictions")):
        status, answer = curl(url, path, body=body)
        assert status == 200
        np.testing.assert_allclose(answer[found_in], expected, rtol=0, atol=1e-6)
    packed = gzip.compress(json.dumps({"inputs": COLUMNS}).encode())
    status, answer = curl(url, path, "-H", "Content-Encoding: gzip", "--compressed", body=packed)
    assert status == 200
    np.testing.assert_allclose(answer["outputs"], expected, rtol=0, atol=1e-6)
    assert curl(url, f"/v1/models/{name}")[1]["model_version_status"][0]["version"] == "3"
    empty_record = {"instances": [{"b64": b64encode(b"").decode()}]}
    assert len(curl(url, path, body=empty_record)[1]["predictions"]) == 1


def test_mistakes(url):
    path = "/v1/models/movie:predict"
    assert curl(url, path, body=b"{")[0] == 400
    assert curl(url, path, body={"inputs": {"uid": [1]}})[0] == 400
    assert curl(url, path, body={"instances": [{"b64": "Cv8="}]})[0] == 400
    assert curl(url, "/v1/models/nobody:predict", body={"inputs": COLUMNS})[0] == 404
    assert curl(url, "/v1/models/movie/versions/9:predict", body={"inputs": COLUMNS})[0] == 404
    assert curl(url, path, body={"inputs": COLUMNS}, token="wrong")[0] == 401
    assert curl(url, path, body=b" " * (5 << 20))[0] == 413


def test_one_model_is_unloaded_and_loaded_while_the_other_answers(url):
    status, index = curl(url, "/v2/repository/index", "-X", "POST")
    assert status == 200 and {one["name"] for one in index} == {"movie", "music"}
    assert curl(url, "/v2/repository/models/music/unload", "-X", "POST")[0] == 200
    assert curl(url, "/v1/models/music:predict", body={"inputs": COLUMNS})[0] >= 400
    assert curl(url, "/v1/models/movie:predict", body={"inputs": COLUMNS})[0] == 200
    assert curl(url, "/v2/repository/models/music/unload", "-X", "POST", token="wrong")[0] == 401
    assert curl(url, "/v2/repository/models/music/load", "-X", "POST")[0] == 200
    assert curl(url, "/v1/models/music:predict", body={"inputs": COLUMNS})[0] == 200
