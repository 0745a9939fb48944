"""Determinism, bfloat16 and compiling; and errors that name the culprit."""

import warnings

import pytest
import torch

import monolith as mono
from monolith.data import EventLogSource
from monolith.errors import NotFiniteError
from monolith.train.config import RunnerConfig
from monolith.train.process_config import ProcessConfig
from tests.model.movie_model import MovieRanking, write_movie_log
from tests.train.counting_model import Counting, Events, train
from tests.train.recorder import Recorder


def losses(tmp_path, name, dropout=0.0, **settings):
    recorder = Recorder()
    config = mono.RunConfig(model_dir=tmp_path / name, log_step_count_steps=0, **settings)
    mono.Estimator(MovieRanking, config, params={"log": tmp_path / "log", "dropout": dropout}).train(hooks=[recorder])
    return recorder.losses


def test_the_same_seed_gives_the_same_losses_to_the_last_bit(tmp_path):
    write_movie_log(tmp_path / "log", 3000)
    runs = [
        losses(tmp_path, name, dropout=0.1, deterministic=True, seed=seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert not torch.are_deterministic_algorithms_enabled()


def test_bfloat16_learns_the_same_to_its_precision(tmp_path):
    write_movie_log(tmp_path / "log", 3000)
    full, half = losses(tmp_path, "full"), losses(tmp_path, "half", autocast=True)
    assert half != full
    torch.testing.assert_close(torch.tensor(half), torch.tensor(full), rtol=0.1, atol=0)


class Damaged(MovieRanking):
    """Gets one label that is no number."""

    def input_fn(self, mode):
        return mono.data.Pipeline(EventLogSource(self.params["log"], batch_size=100)).map(self.damage)

    def damage(self, batch):
        label = batch.columns["label"].clone()
        if batch.first == 200:
            label[17] = float("nan")
        return batch.with_columns({**batch.columns, "label": label})


def test_a_label_that_is_no_number_is_named_with_its_event(tmp_path):
    write_movie_log(tmp_path / "log", 1000)
    estimator = mono.Estimator(
        Damaged,
        mono.RunConfig(model_dir=tmp_path / "model", log_step_count_steps=0, save_checkpoints_steps=2),
        params={"log": tmp_path / "log"},
    )
    with pytest.raises(NotFiniteError, match=r"nan at step 2, .*column 'label' is nan in event 17 of the batch"):
        estimator.train()
    # What was trained until then is there.
    assert estimator.latest_checkpoint().endswith("model.ckpt-2")


@pytest.mark.services  # compiling takes longer than all other tests of this file
def test_a_compiled_model_trains_like_an_eager_one(tmp_path):
    write_movie_log(tmp_path / "log", 1024)
    eager, compiled = losses(tmp_path, "eager"), losses(tmp_path, "compiled", compile=True)
    assert len(compiled) == 4
    assert compiled[0] == pytest.approx(eager[0], rel=1e-5)
    # Batch norm of rows that are still almost zero amplifies the last bits.
    assert compiled == pytest.approx(eager, rel=0.05)


def test_threads_that_torch_no_longer_takes_are_a_warning():
    now = torch.get_num_interop_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ProcessConfig(inter_op_threads=now + 1).apply()
    with pytest.warns(UserWarning, match=f"inter_op_parallelism_threads={now + 2} has no effect: torch takes it once"):
        ProcessConfig(inter_op_threads=now + 2).apply()


def test_looking_at_a_model_takes_the_threads_of_the_settings_too(tmp_path):
    train(tmp_path, steps=1)
    before = torch.get_num_threads()
    config = RunnerConfig(model_dir=tmp_path, intra_op_parallelism_threads=before + 1)
    try:
        mono.Estimator(Counting, config, params=Events(4)).evaluate()
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
