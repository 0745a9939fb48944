"""Triton's own client, as it is: its defaults and every way to send and to ask."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.export.movie import eager, request, trained
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import ROOT


@pytest.mark.services
def test_the_client_of_triton_gets_right_answers(client):
    columns = request(3000)
    # A process of its own: the client brings gevent.
    done = subprocess.run(
        [sys.executable, "-m", "tests.serving.triton_session", f"127.0.0.1:{client.base_url.port}"],
        input=json.dumps({name: values.tolist() for name, values in columns.items()}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["live"], found["ready"], found["extensions"]) == (True, True, ["binary_tensor_data"])
    assert [one["name"] for one in found["inputs"]] == ["uid", "mov", "hour"]
    expected = eager(*trained(), columns)
    assert len(found["answers"]) == 54
    for answer in (found["default"], *found["answers"]):
        np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-6)
    assert "there is no input 'nobody'" in found["error"]
