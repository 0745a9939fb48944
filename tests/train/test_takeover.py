"""A live run comes after all whose versions are in its folder: servers follow it."""

from monolith.export import newest_export
from monolith.export.description import Description
from monolith.export.versions import MODEL_FILE
from monolith.train.live.takeover import first_generation
from tests.train.test_live_sources import estimator, read_by_workers, trace_once  # noqa: F401


def generation_of_a_run(folder, model_dir: str) -> int:
    """Return the generation of the version that a run of one step writes."""
    run = estimator(folder, read_by_workers)
    run.config.model_dir = folder / model_dir
    run.train(steps=1)
    return Description.read(newest_export(folder / "export")).generation


def test_a_new_model_dir_goes_on_counting_generations(tmp_path):
    first = generation_of_a_run(tmp_path, "model")
    assert generation_of_a_run(tmp_path, "model") == first + 1
    assert generation_of_a_run(tmp_path, "with another plan") == first + 2
    assert generation_of_a_run(tmp_path, "model") == first + 3, "and so does the first one, after it"
    (newest_export(tmp_path / "export") / MODEL_FILE).write_text("{}")  # passed over
    assert first_generation(tmp_path / "export") == first + 3


def test_a_folder_without_versions_asks_for_nothing(tmp_path):
    assert first_generation(tmp_path / "nowhere") == 0
