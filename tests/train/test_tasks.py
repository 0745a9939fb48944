"""Tasks of the original's tests of training: a feature, rows against torch's, floats, and a sequence."""

from itertools import islice

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.checkpoint import list_snapshots
from monolith.data import Batch, Schema
from monolith.embedding import AdagradOptimizer, ConstantsInitializer
from monolith.embedding.combiners import FirstN
from monolith.export import load_export, newest_export
from monolith.export.versions import complete_versions
from monolith.model.native_task import FeatureColumnV1, FeatureSlotConfig, NativeTask, TaskSpec
from monolith.native_training.cpu_training import local_train_internal
from monolith.tensors import Ragged
from monolith.train.config import CpuTrainingConfig, RunnerConfig
from monolith.train.trained_model import open_trained
from tests.train.recorder import Recorder

IDS = [1, 2, 3, 4]
DIM = 5
RATE = 0.1


class Repeated:
    """One event with the ids 1 to 4, and a float, so many times."""

    schema = Schema.of(ragged_feature="int64[]", float_feature="float32[4]")

    def __init__(self, count):
        self.count, self.position = count, 0

    def __iter__(self):
        while self.position < self.count:
            self.position += 1
            columns = {
                "ragged_feature": Ragged.from_lists([IDS]),
                "float_feature": torch.tensor([[1.0, 2.0, 3.0, 4.0]]),
            }
            yield Batch(columns, self.position - 1, self.position)

    def state(self):
        return {"n": self.position}

    def restore(self, state):
        self.position = state["n"]


class FeatureTask(NativeTask):
    """Learns from the rows of one feature; `predicted` says what it predicts."""

    count = 5
    combiner = None
    has_floats = False

    def create_input_fn(self, mode):
        return lambda: Repeated(self.count)

    def create_model_fn(self):
        def model_fn(features, mode, config):
            slot = self.ctx.create_feature_slot(
                FeatureSlotConfig(
                    name="ragged_feature",
                    default_vec_initializer=ConstantsInitializer(0.0),
                    default_vec_optimizer=AdagradOptimizer(RATE, initial_accumulator_value=1.0),
                )
            )
            piece = slot.add_feature_slice(DIM)
            rows = FeatureColumnV1(slot, "ragged_feature", self.combiner).embedding_lookup(piece)
            pred = features["float_feature"].sum(1) if self.has_floats else rows.flatten(1).sum(1)
            if mode == mono.PREDICT:
                return TaskSpec(predictions=pred)
            loss = ((rows - 1.0) ** 2).sum()
            if mode == mono.TRAIN:
                self.ctx.apply_embedding_gradients([(2 * (rows - 1.0), rows)])
            return TaskSpec(predictions=pred, loss=loss)

        return model_fn


class EmbeddingUpdateTask(FeatureTask):
    count = 10


class FloatFeatureTask(FeatureTask):
    has_floats = True


class SequenceFeatureTask(FeatureTask):
    combiner = FirstN(2)


def trained(task, folder, **settings):
    recorder = Recorder()
    config = CpuTrainingConfig(log_step_count_steps=0, save_summary_steps=0, **settings)
    local_train_internal(task.params(), config, folder, user_hooks=[recorder])
    model = open_trained(task(), folder)
    (predicted,) = next(iter(model.predict(Repeated(1)))).values()
    return recorder, model.tables["ragged_feature"].lookup(torch.tensor(IDS)).numpy(), predicted.tolist()


def adagrad(steps, kept):
    """The rows after some steps: their sum, or each of the first, is pulled towards one."""
    rows, seen, losses = np.zeros((len(IDS), DIM)), np.ones((len(IDS), DIM)), []
    for _ in range(steps):
        if kept == len(IDS):
            error = rows.sum(0) - 1
            gradient = np.broadcast_to(2 * error, rows.shape)
        else:
            error = rows[:kept] - 1
            gradient = np.concatenate([2 * error, np.zeros((len(IDS) - kept, DIM))])
        losses.append((error**2).sum())
        seen = seen + gradient**2
        rows = rows - RATE * gradient / np.sqrt(seen)
    return rows, losses


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("task", [FeatureTask, EmbeddingUpdateTask, FloatFeatureTask, SequenceFeatureTask])
def test_rows_are_trained_as_numpy_says(tmp_path, task, fused):
    recorder, rows, predicted = trained(task, tmp_path, enable_fused_layout=fused)
    expected, losses = adagrad(task.count, kept=2 if task is SequenceFeatureTask else len(IDS))
    np.testing.assert_allclose(recorder.losses, losses, rtol=1e-5)
    np.testing.assert_allclose(rows, expected, rtol=1e-5)
    read = expected[:2] if task is SequenceFeatureTask else expected
    assert predicted == pytest.approx([10.0 if task is FloatFeatureTask else read.sum()], rel=1e-5)
    assert len(losses) == task.count


def test_rows_are_those_of_an_embedding_of_torch(tmp_path):
    _, rows, _ = trained(EmbeddingUpdateTask, tmp_path)
    weight = torch.nn.Parameter(torch.zeros(5, DIM))
    optimizer = torch.optim.Adagrad([weight], lr=RATE, initial_accumulator_value=1.0, eps=0)
    for _ in range(10):
        optimizer.zero_grad()
        ((torch.nn.functional.embedding_bag(torch.tensor([IDS]), weight, mode="sum") - 1) ** 2).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(rows, weight.detach()[1:].numpy(), rtol=1e-5)


class Clicks(NativeTask):
    """One id per event, so that it can be served."""

    @classmethod
    def params(cls):
        made = super().params()
        made.define("units", 2, "Width of a row.")
        made.train.steps = 3
        made.train.save_checkpoints_steps = 2
        made.serving.export_dir_base = "versions"
        made.serving.export_when_saving = True
        return made

    def create_input_fn(self, mode):
        return lambda: mono.data.arrays({"uid": np.arange(40) % 7}, batch_size=4)

    def create_model_fn(self):
        def model_fn(features, mode, config):
            slot = self.ctx.create_feature_slot(FeatureSlotConfig(name="uid"))
            rows = FeatureColumnV1(slot, "uid").embedding_lookup(slot.add_feature_slice(self.p.units))
            return TaskSpec(predictions=rows.sum(1), loss=None if mode == mono.PREDICT else -rows.sum())

        return model_fn


@pytest.mark.parametrize(("task", "num_ps"), [(Clicks, 0), (Clicks.params(), 0), (Clicks, 2)])
def test_a_task_runs_as_its_own_parameters_say(tmp_path, task, num_ps):
    config = RunnerConfig(
        model_dir=tmp_path,
        params_override='{"units": 5}',
        save_summary_steps=0,
        log_step_count_steps=0,
        is_local=True,
        num_ps=num_ps,
    )
    estimator = mono.Estimator(task, config)
    result = estimator.train()
    assert result.global_step == 3
    # A save and a version at the start, after two steps, and at the end.
    assert [path.name for path in list_snapshots(tmp_path)] == ["model.ckpt-0", "model.ckpt-2", "model.ckpt-3"]
    assert complete_versions(tmp_path / "versions") == [1, 2, 3]
    # The parameters of a task say "distributed": each server writes its own part.
    parts = sorted(path.relative_to(tmp_path / "versions").as_posix() for path in tmp_path.glob("versions/*/3"))
    assert parts == ["entry/3", *(f"ps_{shard}/3" for shard in range(max(1, num_ps)))]
    served = load_export(newest_export(tmp_path / "versions"))
    assert served.tables["uid"].dim == 5
    (answers,) = served.predict({"uid": np.arange(7)}).values()
    expected = [float(one["pred"]) for one in islice(estimator.predict(), 7)]
    np.testing.assert_allclose(answers, expected, atol=1e-3)  # rows are served in half precision


def test_a_parameter_that_a_task_does_not_have_cannot_be_overridden(tmp_path):
    with pytest.raises(ValueError, match="params_override: there is no parameter 'unit'"):
        mono.Estimator(Clicks, RunnerConfig(model_dir=tmp_path, params_override='{"unit": 5}'))


def test_saves_of_dense_weights_alone_write_versions_that_share_rows(tmp_path):
    config = RunnerConfig(
        model_dir=tmp_path,
        save_checkpoints_steps=100,
        dense_only_save_checkpoints_steps=1,
        dense_only_stop_training_when_save=True,
        save_summary_steps=0,
        log_step_count_steps=0,
        is_local=True,
        exports_max_to_keep=2,
    )
    mono.Estimator(Clicks, config).train()
    # Of the versions 1 (the start), 2 to 4 (dense weights after each step) and 5 (the end), the last two are kept.
    names = sorted(path.relative_to(tmp_path / "versions").as_posix() for path in tmp_path.glob("versions/*/[0-9]"))
    assert names == ["entry/4", "entry/5", "ps_0/1", "ps_0/5"]
