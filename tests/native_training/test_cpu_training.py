"""CpuTraining and local_train, over a small task."""

from pathlib import Path

import pytest
import torch

import monolith as mono
from monolith.checkpoint import list_snapshots
from monolith.checkpoint.inspect import diff_snapshots
from monolith.export import load_export
from monolith.model.zoo.movie_ranking import MovieRanking
from monolith.native_training import cpu_training as original
from monolith.native_training.cpu_training import (
    CpuTraining,
    create_exporter,
    get_req_time,
    local_train,
    local_train_internal,
)
from monolith.train.config import CpuTrainingConfig, RunnerConfig
from tests.model.test_native_task import Summing
from tests.train.recorder import Recorder


def test_a_task_is_trained_in_one_call(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "left over").write_text("from before")
    estimator = local_train(Summing.params(), model_dir=folder, steps=3, save_checkpoints_steps=2)
    assert estimator.latest_checkpoint().endswith("model.ckpt-3")
    assert [path.name for path in list_snapshots(folder)] == [f"model.ckpt-{step}" for step in (0, 2, 3)]
    assert not (folder / "left over").exists()


def test_hooks_of_the_user_watch(tmp_path):
    recorder = Recorder()
    local_train_internal(Summing.params(), CpuTrainingConfig(), tmp_path, steps=2, user_hooks=[recorder])
    assert len(recorder.losses) == 2


def test_what_the_configuration_leaves_open_is_filled_in():
    config = CpuTrainingConfig(enable_realtime_training=True)
    training = CpuTraining(config, Summing())
    filled = training.config
    assert (filled.partial_recovery, filled.dense_only_save_checkpoints_secs) == (True, 1800)
    assert (filled.use_native_multi_hash_table, filled.model_name) == (True, "di_name_Summing")
    assert config == CpuTrainingConfig(enable_realtime_training=True)  # the caller's is left alone
    assert training.feature_configs["ids"].dim == 3
    named = Summing(Summing.params().set(**{"metrics.deep_insight_name": "ranker"}))
    assert CpuTraining(CpuTrainingConfig(), named).config.model_name == "ranker"
    with pytest.raises(ValueError, match="server_type in CpuTraining must be `worker`"):
        CpuTraining(CpuTrainingConfig(server_type="ps"), MovieRanking())


class Reading(MovieRanking):
    """Where its events are is said by the settings."""

    def input_fn(self, mode):
        return mono.data.csv(batch_size=2, uid="int64", mov="int64", label="float32")


def test_input_functions_see_the_settings_of_the_data(tmp_path):
    (tmp_path / "events.csv").write_text("uid,mov,label\n1,2,1\n3,4,0\n5,6,1\n")
    training = CpuTraining(RunnerConfig(input_path=str(tmp_path), wildcard="*.csv"), Reading())
    for mode in (mono.TRAIN, mono.EVAL):
        assert [batch.columns["uid"].tolist() for batch in training.create_input_fn(mode)()] == [[1, 3], [5]]
    assert set(training.feature_configs) == {"uid", "mov"}


def test_the_time_of_a_batch():
    assert get_req_time({"req_time": torch.tensor([7, 8])}) == 7
    assert get_req_time({}) is None


def test_parameter_servers_train_the_same_model(tmp_path):
    alone, served = (
        local_train(Summing.params(), num_ps=num_ps, model_dir=tmp_path / str(num_ps), steps=4) for num_ps in (0, 2)
    )
    alone_path, served_path = (Path(one.latest_checkpoint()) for one in (alone, served))
    assert sorted(path.name for path in (served_path / "tables").iterdir())[0].endswith("-00000-of-00002")
    difference = diff_snapshots(alone_path, served_path)
    assert [(one.added, one.removed, one.changed) for one in difference.tables] == [(0, 0, 0)]
    assert original.local_train is local_train


def test_an_exporter_writes_versions_of_a_task(tmp_path):
    params = Summing.params().set(**{"serving.export_mode": "distributed"})
    local_train(params, model_dir=tmp_path, steps=3, save_checkpoints_steps=2)
    task = CpuTraining(CpuTrainingConfig(num_ps=2), params.instantiate())
    by_step = create_exporter(task, tmp_path, None, "versions", False, global_step_as_timestamp=True)
    path = by_step.export_saved_model()
    assert path == tmp_path / "versions" / "entry" / "3" and (tmp_path / "versions" / "ps_1" / "3").is_dir()
    dense = create_exporter(task, tmp_path, None, "versions", True).export_saved_model()
    assert (dense.name, load_export(dense).version) == ("4", 4)
    assert not (tmp_path / "versions" / "ps_1" / "4").exists()


def test_an_exporter_refuses_what_it_cannot_write(tmp_path):
    alone = CpuTraining(CpuTrainingConfig(export_mode="standalone"), Summing())
    with pytest.raises(ValueError, match="Only DISTRIBUTED mode is allowed when dense_only=True"):
        create_exporter(alone, tmp_path, None, "versions", True)
    with pytest.raises(ValueError, match="include_graphs=.*leave it out"):
        create_exporter(alone, tmp_path, None, "versions", False, include_graphs=["entry"])
