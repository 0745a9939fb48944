"""The command, the report, and the table benchmark at toy sizes."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.peer_process import PeerProcess, PeerProgram, start_peer
from benchmarks.registry import BENCHMARKS, load
from benchmarks.report import Figure, Report, json_line, show

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_help_names_the_options() -> None:
    done = run("--help")
    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout
    assert "--out" in done.stdout


def test_without_a_name_the_benchmarks_are_listed() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in BENCHMARKS)


def test_an_unknown_name_is_refused() -> None:
    done = run("tabel")
    assert done.returncode == 2
    assert "tabel" in done.stderr
    with pytest.raises(ValueError, match="'tabel'; choose one of checkpoint, collisions, data, online, table"):
        load("tabel")


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


def only_torch(program: PeerProgram, settings: dict[str, Any], notice: Callable[[str], None]) -> PeerProcess | None:
    """Start the peer that needs no environment of its own; the others are missing."""
    return None if program.venv else start_peer(program, settings, notice)


def test_table_benchmark_runs_at_toy_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("monolith.embedding")
    table = importlib.import_module("benchmarks.table")
    sizes = importlib.import_module("benchmarks.table.sizes").TableSizes(
        num_rows=5_000,
        dims=(16,),
        batch_size=512,
        num_features=2,
        training_batch_size=64,
        training_steps=1,
        growth_rows=(1_000, 4_000),
        growth_batch_size=256,
    )
    # What is installed beside the checkout must not decide what this test sees: torch is there, the others are not.
    for stage in ("lookup", "training"):
        module = importlib.import_module(f"benchmarks.table.{stage}")
        monkeypatch.setattr(module, "start_peer", only_torch)
    report = table.measure(sizes, quick=True, progress=lambda stage: None)

    figures = {figure.name: figure.value for figure in report.figures}
    assert figures["lookup_vs_index_select"] > 0
    assert figures["train_vs_torch"] > 0
    assert figures["lookup_vs_tfra"] is None
    assert figures["train_vs_fbgemm"] is None
    assert json.loads(json_line(report))["figures"] == figures
