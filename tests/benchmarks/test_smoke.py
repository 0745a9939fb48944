"""Every benchmark runs, as a user would run it, at sizes that take seconds; peers that are not there are left out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.collisions.ratings import find_movielens
from benchmarks.peer_process import FBGEMM, TENSORFLOW, TFRA
from benchmarks.registry import BENCHMARKS
from benchmarks.train.turns import PEERS

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"benchmark", "quick", "figures", "goals_met", "sizes", "machine", "details", "notices"}
MOVIELENS = "MovieLens-100k"
AVAILABLE = {
    **{peer.name: peer.interpreter().exists() for peer in (FBGEMM, TENSORFLOW, TFRA, PEERS["torchrec"])},
    MOVIELENS: find_movielens() is not None,
}

FIGURES: dict[str, dict[str, str | None]] = {
    "checkpoint": {
        "save_vs_write": None,
        "train_slowdown_while_saving": None,
        "longest_pause_ms": None,
        "restore_vs_read": None,
        "restore_vs_read_to_keep": None,
        "delta_bytes_vs_snapshot": None,
        "reshard_vs_restore": None,
    },
    "collisions": {
        f"{ratings}_{model}_{figure}": needed
        for ratings, needed in (("made_up", None), ("movielens", MOVIELENS))
        for model in ("factors", "net")
        for figure in ("auc_gain", "auc_gain_error", "gain_in_errors")
    },
    "data": {
        "parse_vs_tensorflow": "tensorflow",
        "parse_vs_protobuf": None,
        "tfrecord_vs_read": None,
        "prefetch_overlap": None,
        "hash_csv_vs_pyarrow": None,
        "csv_vs_arrays": None,
        "service_vs_local": None,
    },
    "online": {
        "freshness_p50_seconds": None,
        "freshness_p99_seconds": None,
        "events_per_second": None,
        "predictions_per_second": None,
    },
    "ps": {
        "pull_vs_socket": None,
        "push_vs_socket": None,
        "push_vs_socket_and_step": None,
        "small_pull_vs_socket": None,
        "tls_cost": None,
        "tls_push_cost": None,
        "half_pull_cost": None,
        "half_push_cost": None,
        "pull_scaling": None,
        "push_scaling": None,
        "tls_pull_scaling": None,
        "tls_push_scaling": None,
        "staleness_max": None,
        "async_vs_local": None,
        "shard_imbalance_1000": None,
    },
    "serving": {
        "rps_vs_bare": None,
        "rps_vs_hand_written": None,
        "rps_binary_vs_json": None,
        "p99_over_p50": None,
        "infer_vs_torch": None,
        "sync_rows_per_second_vs_apply": None,
        "p99_while_syncing_over_quiet": None,
        "table_bytes_fp16_vs_train": None,
    },
    "shards": {"shard_imbalance_1000": None},
    "sync": {
        "two_ranks_vs_one": None,
        "exchange_share": None,
        "id_overlap": None,
        "overlapped_vs_plain": None,
        "vs_torchrec_sharded": "torchrec",
        "efficiency_1024": None,
    },
    "table": {
        "lookup_vs_index_select": None,
        "lookup_vs_bound": None,
        "lookup_vs_bound_huge": None,
        "lookup_vs_bound_far": None,
        "lookup_vs_tfra": "tfra",
        "insert_vs_tfra": "tfra",
        "overhead_bytes_per_row": None,
        "train_vs_bound": None,
        "train_vs_bound_far": None,
        "two_writers_vs_one": None,
        "busy_vs_quiet": None,
        "train_vs_torch": None,
        "train_vs_fbgemm": "fbgemm",
        "train_vs_fbgemm_rowwise": "fbgemm",
        "train_vs_fbgemm_full": "fbgemm",
        "growth_lookup_cost": None,
        "growth_insert_cost": None,
        "growth_overhead_bytes_per_row_worst": None,
        "longest_pause_milliseconds": None,
        "longest_pause_vs_median": None,
    },
    "train": {
        "deepfm_vs_torch": None,
        "dlrm_vs_torch": None,
        "deepfm_vs_torchrec": "torchrec",
        "dlrm_vs_torchrec": "torchrec",
        "deepfm_vs_tfra": "tfra",
        "table_time_vs_torch_step": None,
        "samples_per_second": None,
    },
}
"""The figures that each benchmark promises, with the peer or data that a figure cannot do without."""

MAY_BE_NEGATIVE = re.compile("prefetch_overlap|id_overlap|.*_auc_gain|.*_gain_in_errors")


def smoke(name: str, folder: Path) -> dict[str, Any]:
    """Run a benchmark and return its JSON line."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, "--smoke", "--out", "line.json"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[-1]
    written = folder / "line.json"
    assert written.read_text() == line + "\n"
    written.unlink()
    report: dict[str, Any] = json.loads(line)
    return report


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_smoke_run_gives_every_figure(name: str, tmp_path: Path) -> None:
    report = smoke(name, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert report.keys() == KEYS
    assert (report["benchmark"], report["quick"]) == (name, True)
    assert report["details"]
    assert report["sizes"]
    figures = report["figures"]
    missing = {figure for figure, needed in FIGURES[name].items() if needed and not AVAILABLE[needed]}
    assert set(figures) == set(FIGURES[name])
    assert {figure for figure, value in figures.items() if value is None} == missing
    for peer in {FIGURES[name][figure] for figure in missing}:
        assert any(f"{peer} is not installed" in line or f"{peer} was left out" in line for line in report["notices"])
    assert all(value > 0 for figure, value in figures.items() if value and not MAY_BE_NEGATIVE.fullmatch(figure))
    if name == "checkpoint":
        # 12 bytes and 16 floats for each row; what else there is does not depend on their number.
        assert report["details"]["snapshot_bytes"] > report["sizes"]["num_rows"] * (12 + 64)
        assert 0.01 < figures["delta_bytes_vs_snapshot"] < 0.1


def test_every_benchmark_there_is_is_listed_described_and_run() -> None:
    packages = {path.parent.name for path in (ROOT / "benchmarks").glob("*/__init__.py")} - {"peers"}
    assert packages == set(BENCHMARKS) == set(FIGURES)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    measured = readme[readme.index("## Measured") : readme.index("## Coming from")]
    assert set(re.findall(r"^`(?:python -m benchmarks )?([a-z_]+)`", measured, re.MULTILINE)) == set(BENCHMARKS)


@pytest.mark.services
@pytest.mark.parametrize("name", ["data", "sync", "table", "train"])
def test_peers_take_part(name: str, tmp_path: Path) -> None:
    missing = {needed for needed in FIGURES[name].values() if needed and not AVAILABLE[needed]}
    if missing:
        pytest.skip(f"not installed: {', '.join(sorted(missing))}; `make bench-peers` installs them")
    assert None not in smoke(name, tmp_path)["figures"].values()
