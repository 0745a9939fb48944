"""The command and the report."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.registry import BENCHMARKS, load
from benchmarks.report import Figure, Report, json_line, show
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_help_names_the_options() -> None:
    done = run("--help")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in BENCHMARKS)
    assert "--quick" in done.stdout
    assert "--smoke" in done.stdout
    assert "--out" in done.stdout


def test_without_a_name_the_benchmarks_are_listed() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in BENCHMARKS)


def test_an_unknown_name_is_refused() -> None:
    done = run("tabel")
    assert done.returncode == 2
    assert "tabel" in done.stderr
    assert run("table", "--quick", "--smoke").returncode == 2
    with pytest.raises(ValueError, match="'tabel'; choose one of checkpoint, collisions, data, online, ps, "):
        load("tabel")


def test_kernels_can_be_held_to_an_instruction_set() -> None:
    done = run("shards", "--smoke", "--simd", "scalar")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["machine"]["simd_level"] == "scalar"
    refused = run("shards", "--smoke", "--simd", "avx3")
    assert refused.returncode == 2
    assert "choose scalar, avx2 or" in refused.stderr


def make_report() -> Report:
    """Return a report with a goal met, one missed and one unknown."""
    return Report(
        benchmark="toy",
        quick=False,
        figures=[
            Figure(name="fast", value=2.0, at_least=1.5, meaning="met"),
            Figure(name="large", value=30.0, at_most=24.0, meaning="missed"),
            Figure(name="absent", value=None, at_least=1.0, meaning="unknown"),
        ],
        details={},
        sizes={"num_rows": 10},
        notices=["peer [x] is not installed"],
    )


def test_goals() -> None:
    assert [figure.met() for figure in make_report().figures] == [True, False, None]


def test_json_is_one_line_with_figures_machine_and_sizes() -> None:
    line = json_line(make_report())
    assert "\n" not in line
    content = json.loads(line)
    assert content["figures"] == {"fast": 2.0, "large": 30.0, "absent": None}
    assert content["sizes"] == {"num_rows": 10}
    assert {"cores", "simd_level", "torch", "git_commit"} <= content["machine"].keys()


def test_the_table_for_people_shows_goals_and_notices() -> None:
    text = io.StringIO()
    show(make_report(), Console(file=text, width=120))
    assert "missed" in text.getvalue()
    assert "peer [x] is not installed" in text.getvalue()
