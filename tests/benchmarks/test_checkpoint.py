"""The checkpoint benchmark at toy sizes: it runs, and the figures that do not depend on the machine are right."""

import json

from benchmarks.checkpoint import CheckpointSizes, measure
from benchmarks.report import json_line


def test_a_tiny_run_gives_every_figure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = CheckpointSizes(num_rows=20_000, num_saves=1, num_quiet_steps=2, batch_size=64, dim=8)
    report = json.loads(json_line(measure(sizes, quick=True, progress=lambda _: None)))
    assert set(report["figures"]) == {
        "save_vs_write",
        "train_slowdown_while_saving",
        "longest_pause_ms",
        "restore_vs_read",
        "restore_vs_read_to_keep",
        "delta_bytes_vs_snapshot",
        "reshard_vs_restore",
    }
    assert all(value > 0 for value in report["figures"].values())
    # 12 bytes and 16 floats for each row; what else there is does not depend on their number.
    assert report["details"]["snapshot_bytes"] > 20_000 * (12 + 64)
    assert 0.01 < report["figures"]["delta_bytes_vs_snapshot"] < 0.1
    assert list(tmp_path.iterdir()) == []
