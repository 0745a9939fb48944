"""A live run comes after all whose versions are in its folder: servers follow it."""

import pytest

from monolith.export import newest_export
from monolith.export.description import Description
from monolith.export.versions import version_paths
from monolith.train.live.takeover import first_generation
from tests.train.test_live_sources import csv_files, estimator, trace_once  # noqa: F401


@pytest.fixture
def base(tmp_path):
    """Versions of two runs in one folder."""
    for steps in (1, 2):
        estimator(tmp_path, labelled).train(steps=steps)
    return tmp_path / "export"


def test_a_new_model_dir_goes_on_counting_generations(tmp_path, base):
    before = Description.read(newest_export(base)).generation
    assert before > 0
    again = estimator(tmp_path, labelled)
    again.config.model_dir = tmp_path / "another"
    again.train(steps=1)
    assert Description.read(newest_export(base)).generation == before + 1
