"""The movie-ranking example learns, says so, and goes on where it was."""

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "movie_ranking.py"


@pytest.fixture(autouse=True)
def keep_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_example_learns_and_resumes(tmp_path, capsys):
    main = runpy.run_path(str(EXAMPLE))["main"]
    first = main(tmp_path, 40)
    assert first.global_step == 40
    second = main(tmp_path, 120)
    assert second.global_step == 120
    assert second.metrics["auc"] > 0.68
    assert "step 40:" in capsys.readouterr().out
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 100
