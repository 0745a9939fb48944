"""import_saved_model: an export as a function of columns or records, equal to what the estimator predicts."""

import numpy as np
import pytest

import monolith as mono
from monolith.export import import_saved_model
from monolith.export.versions import version_paths
from monolith.model.zoo.ffm import FFMParams, generate_ffm_example
from monolith.native_training.estimator import import_saved_model as original
from tests.export.taste import DATATYPES, events, predicted, trained

VOCAB = [5] * 6


@pytest.fixture(scope="module")
def ffm(tmp_path_factory):
    """The estimator of the FFM model, trained and exported twice, and the base of its versions."""
    folder = tmp_path_factory.mktemp("ffm")
    estimator = mono.Estimator(FFMParams().task(), mono.RunConfig(model_dir=folder / "model", log_step_count_steps=0))
    estimator.train(steps=2)
    estimator.export_saved_model(export_base=folder / "versions")
    estimator.train(steps=8)
    estimator.export_saved_model(export_base=folder / "versions")
    return estimator, folder / "versions"


def test_ten_batches_of_records_give_what_the_estimator_predicts(ffm):
    estimator, base = ffm
    random = np.random.RandomState(0)  # the events that the model's own input function makes
    records = [generate_ffm_example(VOCAB, random) for _ in range(64)]
    expected = np.array([float(one["pred"]) for one in estimator.predict()])
    with import_saved_model(base) as infer:
        # The rows of this model are served as fp16, which has three digits.
        np.testing.assert_allclose(infer(records)["output"], expected, rtol=1e-3)
        np.testing.assert_array_equal(infer({"instances": records})["output"], infer(records)["output"])
        for _ in range(10):
            found = infer([generate_ffm_example(VOCAB, random) for _ in range(64)])["output"]
            assert found.shape == (64,)
            assert ((found > 0) & (found < 1)).all()


def test_the_newest_version_is_taken_unless_one_is_named(ffm):
    _, base = ffm
    newer, older = version_paths(base)
    records = [generate_ffm_example(VOCAB, np.random.RandomState(1))]
    results = []
    for path in (older, newer, base):
        with import_saved_model(path) as infer:
            results.append(infer(records)["output"])
    assert results[0] != results[1]
    assert results[1] == results[2]


def test_columns_with_lists(tmp_path):
    estimator = trained(tmp_path / "model", events(320))
    version = estimator.export_saved_model(export_base=tmp_path / "versions")
    asked = events(17)
    with import_saved_model(version, output_name=None) as infer:
        answer = infer({name: asked[name] for name in DATATYPES})
    np.testing.assert_allclose(answer["pred"], predicted(estimator, asked), rtol=1e-6)


def test_what_is_not_there_is_named(ffm, tmp_path):
    _, base = ffm
    with pytest.raises(FileNotFoundError, match=f"no models in dir {tmp_path}"), import_saved_model(tmp_path):
        pass
    with pytest.raises(ValueError, match="no signature 'train'.*serving_default"):
        import_saved_model(base, signature="train").__enter__()
    with pytest.raises(ValueError, match="no output 'click'; choose output_name from pred"):
        import_saved_model(base, output_name=["click", "buy"]).__enter__()
    with pytest.raises(ValueError, match="records must be one of tf_example, example, .*, got 'csv'"):
        import_saved_model(base, records="csv").__enter__()
    with import_saved_model(base) as infer, pytest.raises(ValueError, match="feature_1"):
        infer({"feature_0": [[1]]})


def test_the_name_of_the_original():
    assert original is import_saved_model
