"""The commands of the README lead from a model's class to an answer over HTTP."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import monolith as mono

README = (Path(__file__).parents[2] / "README.md").read_text()
END_WITH_THE_SERVER = "trap 'kill $(jobs -p)' EXIT\n"


def block(language: str, having: str) -> str:
    """The code block of the README that has these words."""
    (found,) = [one for one in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if having in one]
    return found


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README asks with curl, which is not installed")
@pytest.mark.timeout(240)
def test_from_a_class_to_a_served_answer(tmp_path):
    model, _, _ = block("python", "class Ranking").partition("estimator = ")
    (tmp_path / "ranking.py").write_text(model.replace("count=100_000", "count=20_000"))
    commands = block("sh", "monolith export").replace("8500", str(free_port()))
    command = tmp_path / "bin" / "monolith"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m monolith "$@"\n')
    command.chmod(0o755)
    ran = subprocess.run(
        ["bash", "-e", "-c", END_WITH_THE_SERVER + commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    # The same events, asked of the snapshot here.
    sys.path.insert(0, str(tmp_path))
    try:
        ranking = __import__("ranking").Ranking
    finally:
        sys.path.remove(str(tmp_path))

    class Asked(ranking):
        def input_fn(self, mode):
            return mono.data.arrays({"uid": [12], "mov": [7]})

    (expected,) = mono.Estimator(Asked, mono.RunConfig(model_dir=tmp_path / "model")).predict()
    (expected,) = expected.values()
    assert answer["predictions"][0] == pytest.approx(float(expected), abs=1e-6)
