"""The data benchmark at toy sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.data.csv_files import CsvEvents
from benchmarks.data.figures import figures
from benchmarks.data.parsing import measure_parsing
from benchmarks.data.records import DENSE_NAMES, ID_NAMES, LABEL, make_parser, make_records, parsed_source
from benchmarks.data.sizes import SMOKE as TOY
from benchmarks.peer_process import TENSORFLOW

CSV = {"hash_vs_pyarrow": 2.9, "csv_vs_arrays": 0.81}


def test_a_figure_is_the_worse_of_its_cases() -> None:
    parsing_ratios = {"fixed_vs_tensorflow": 3.0, "ragged_vs_tensorflow": 2.5, "fixed_vs_protobuf": 40.0}
    found = {f.name: f for f in figures(parsing_ratios, {"vs_read": 0.4}, {"hidden": 0.95}, CSV, None)}
    assert found["parse_vs_tensorflow"].value == 2.5
    assert found["parse_vs_protobuf"].value == 40.0
    assert found["tfrecord_vs_read"].met() is False
    assert found["prefetch_overlap"].met() is True
    assert found["hash_csv_vs_pyarrow"].met() is False
    assert found["csv_vs_arrays"].met() is True
    assert found["service_vs_local"].met() is None


def test_records_come_back_from_files_as_they_were_made(tmp_path: Path) -> None:
    records = make_records(TOY)
    assert list(records.columns) == [LABEL, *DENSE_NAMES, *ID_NAMES]
    batches = list(parsed_source(records.write_files(tmp_path, 1), TOY.batch_size))
    assert len(batches) == TOY.num_batches
    for name, column in records.columns.items():
        read = np.concatenate([np.asarray(batch.columns[name]) for batch in batches])
        np.testing.assert_array_equal(read, column)


def test_the_csv_file_and_the_arrays_hold_the_same_events(tmp_path: Path) -> None:
    events = CsvEvents(make_records(TOY), tmp_path)
    pairs = zip(events.from_csv(TOY.batch_size), events.from_arrays(TOY.batch_size), strict=True)
    for read, held in pairs:
        assert read.columns.keys() == held.columns.keys()
        for name, column in held.columns.items():
            np.testing.assert_array_equal(np.asarray(read.columns[name]), np.asarray(column))


def test_features_do_not_share_ids() -> None:
    records = make_records(TOY)
    seen = [set(records.columns[name].tolist()) for name in ID_NAMES]
    assert len(set().union(*seen)) == sum(map(len, seen))


def test_a_parser_that_errs_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    records = make_records(TOY)
    records.columns["C3"][7] += 1
    with pytest.raises(RuntimeError, match="column C3 was not parsed as it was written"):
        measure_parsing(records, TOY, tmp_path, lambda line: None)


@pytest.mark.services
@pytest.mark.skipif(not TENSORFLOW.interpreter().exists(), reason="`make bench-peers` installs TensorFlow")
def test_tensorflow_parses_the_same_ids(tmp_path: Path) -> None:
    result = measure_parsing(make_records(TOY), TOY, tmp_path, pytest.fail)
    assert result["fixed_vs_tensorflow"] > 0
    assert result["ragged_vs_tensorflow"] > 0
    assert make_parser().schema.names[0] == LABEL
