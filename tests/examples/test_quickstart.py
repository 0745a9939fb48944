"""The quickstart learns, and says so."""

import runpy
from pathlib import Path

import torch

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart.py"


def test_quickstart_learns_and_beats_shared_rows(capsys):
    threads = torch.get_num_threads()
    try:
        results = runpy.run_path(str(QUICKSTART))["main"](steps=150)
    finally:
        torch.set_num_threads(threads)
    first, last, _ = results["row per id"]
    assert last > first + 0.2
    assert last > results["buckets"][1]
    assert "rows of 8 floats" in capsys.readouterr().out
