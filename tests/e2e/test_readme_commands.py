"""The commands of the README lead from a model's class to an answer over HTTP."""

import json
import shutil
import sys
from pathlib import Path

import pytest

import monolith as mono
from tests.e2e.typed_commands import blocks, run_typed

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(language: str, having: str) -> str:
    """The code block of the README that has these words."""
    (found,) = [one for one in blocks(README, language) if having in one]
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README asks with curl, which is not installed")
def test_from_a_class_to_a_served_answer(tmp_path):
    model, _, _ = block("python", "class Ranking").partition("estimator = ")
    (tmp_path / "ranking.py").write_text(model.replace("count=100_000", "count=20_000"))
    ran = run_typed(block("sh", "monolith export"), tmp_path, tmp_path / "bin")
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

    (expected,) = mono.Estimator(Asked, mono.RunConfig(model_dir=tmp_path / "trained")).predict()
    (expected,) = expected.values()
    assert answer["predictions"][0] == pytest.approx(float(expected), abs=1e-6)
