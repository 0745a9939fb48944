"""The data benchmark at toy sizes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.data import measure, parsing
from benchmarks.data.figures import figures
from benchmarks.data.parsing import measure_parsing
from benchmarks.data.records import DENSE_NAMES, ID_NAMES, LABEL, make_parser, make_records, parsed_source
from benchmarks.data.sizes import DataSizes
from benchmarks.peer_process import TENSORFLOW, PeerProcess, PeerProgram
from benchmarks.report import json_line

TOY = DataSizes(batch_size=64, num_batches=2, num_files=2, parsed_batches=1, steps=3, embedding_dim=4, hidden=(8,))


def missing(program: PeerProgram, settings: dict[str, Any], notice: Callable[[str], None]) -> PeerProcess | None:
    """Be a peer that is not installed."""
    notice(f"peer {program.name} is not installed")
    return None


def test_runs_at_toy_sizes_without_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "start_peer", missing)
    report = measure(TOY, quick=True, progress=lambda stage: None)

    content = json.loads(json_line(report))
    found = content["figures"]
    assert found.pop("parse_vs_tensorflow") is None
    assert "peer tensorflow is not installed" in content["notices"]
    assert set(found) == {"parse_vs_protobuf", "tfrecord_vs_read", "prefetch_overlap", "service_vs_local"}
    assert all(isinstance(value, float) for value in found.values())
    assert min(found["parse_vs_protobuf"], found["tfrecord_vs_read"], found["service_vs_local"]) > 0
    assert content["goals_met"]["parse_vs_tensorflow"] is None


def test_a_figure_is_the_worse_of_its_cases() -> None:
    parsing_ratios = {"fixed_vs_tensorflow": 3.0, "ragged_vs_tensorflow": 2.5, "fixed_vs_protobuf": 40.0}
    found = {f.name: f for f in figures(parsing_ratios, {"vs_read": 0.4}, {"hidden": 0.95}, None)}
    assert found["parse_vs_tensorflow"].value == 2.5
    assert found["parse_vs_protobuf"].value == 40.0
    assert found["tfrecord_vs_read"].met() is False
    assert found["prefetch_overlap"].met() is True
    assert found["service_vs_local"].met() is None


def test_records_come_back_from_files_as_they_were_made(tmp_path: Path) -> None:
    records = make_records(TOY)
    assert list(records.columns) == [LABEL, *DENSE_NAMES, *ID_NAMES]
    batches = list(parsed_source(records.write_files(tmp_path, 1), TOY.batch_size))
    assert len(batches) == TOY.num_batches
    for name, column in records.columns.items():
        read = np.concatenate([np.asarray(batch.columns[name]) for batch in batches])
        np.testing.assert_array_equal(read, column)


def test_features_do_not_share_ids() -> None:
    records = make_records(TOY)
    seen = [set(records.columns[name].tolist()) for name in ID_NAMES]
    assert len(set().union(*seen)) == sum(map(len, seen))


def test_a_parser_that_errs_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    records = make_records(TOY)
    records.columns["C3"][7] += 1
    with pytest.raises(RuntimeError, match="column C3 was not parsed as it was written"):
        measure_parsing(records, TOY, tmp_path, lambda line: None)


@pytest.mark.skipif(not TENSORFLOW.interpreter().exists(), reason="`make bench-peers` installs TensorFlow")
def test_tensorflow_parses_the_same_ids(tmp_path: Path) -> None:
    result = measure_parsing(make_records(TOY), TOY, tmp_path, pytest.fail)
    assert result["fixed_vs_tensorflow"] > 0
    assert result["ragged_vs_tensorflow"] > 0
    assert make_parser().schema.names[0] == LABEL
