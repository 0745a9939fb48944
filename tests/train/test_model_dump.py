"""The definition of a model, written down and read back."""

import json

import pytest

import monolith as mono
from monolith.model.zoo.movie_ranking import MovieRanking
from monolith.train.config import RunnerConfig
from monolith.train.model_dump import MODEL_DUMP_NAME, DumpUtils
from tests.model import movie_model
from tests.train.counting_model import train


def test_a_run_leaves_what_makes_the_model_again(tmp_path):
    movie_model.write_movie_log(tmp_path / "log", 256)
    params = {"log": str(tmp_path / "log"), "batch_size": 128}
    settings = {"model_dir": tmp_path / "model", "log_step_count_steps": 0, "enable_model_dump": True, "seed": 3}
    estimator = mono.Estimator(movie_model.MovieRanking, RunnerConfig(**settings), params=params)
    estimator.train()
    dump = DumpUtils()
    dump.load(tmp_path / "model" / MODEL_DUMP_NAME)
    assert dump.has_collected
    assert dump.restore_params() == params
    assert dump.get_config()["model_dir"] == str(tmp_path / "model")
    assert sorted(dump.get_changed()) == ["enable_model_dump", "log_step_count_steps", "model_dir", "seed"]
    assert dump.feature_slice_dims == {"uid": [8], "mov": [8, 1]}
    assert dump.feature_combiners == {"uid": "reduce_sum", "mov": "reduce_sum"}
    assert {name: table.dim for name, table in dump.table_configs.items()} == {"uid": 8, "mov": 9}
    again = mono.Estimator(dump.restore_model(), RunnerConfig(model_dir=tmp_path / "model", log_step_count_steps=0))
    assert again.evaluate() == estimator.evaluate()


def test_nothing_is_written_unless_asked_for(tmp_path):
    train(tmp_path)
    assert not (tmp_path / MODEL_DUMP_NAME).exists()
    dump = DumpUtils()
    dump.record_params(MovieRanking())
    dump.add_config(RunnerConfig())
    assert not dump.has_collected


def test_what_cannot_be_recorded_is_said(tmp_path):
    class Local(MovieRanking):
        pass

    dump = DumpUtils(enable=True)
    dump.record_params(Local({"source": object()}))
    dump.add_config(RunnerConfig(device_fn=print))
    dump.add_user_params({"note": "a"})
    dump.dump(tmp_path / "dump")
    read = DumpUtils()
    read.load(tmp_path / "dump")
    assert len(read.restrictions) == 3
    assert "from where it cannot be imported" in read.restrictions[0]
    assert read.restrictions[2] == "setting device_fn is code"
    assert read.get_user_params() == {"note": "a"}
    with pytest.raises(ValueError, match="has no params: .*not JSON serializable"):
        read.restore_params()


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"format": 99})])
def test_what_is_no_dump_is_refused(tmp_path, text):
    (tmp_path / "dump").write_text(text)
    with pytest.raises(ValueError, match="is no model dump"):
        DumpUtils().load(tmp_path / "dump")
