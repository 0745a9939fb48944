"""A feature with a new name takes the rows of the table that its `extra_restore_names` name."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import monolith as mono
from monolith.checkpoint.format.manifest import read_manifest
from monolith.cli.app import app
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.errors import PlanMismatchError
from monolith.model.hyper_params import InstantiableParams
from monolith.model.native_task import FeatureColumnV1, FeatureSlotConfig, NativeTask, TaskSpec
from monolith.native_training.cpu_training import local_train_internal
from monolith.train.config import RunnerConfig
from tests.train.counting_model import Events

QUIET = {"log_step_count_steps": 0, "save_summary_steps": 0}
EVENTS = 20
RULES = {"optimizer": SgdOptimizer(learning_rate=1.0), "initializer": ZerosInitializer()}


class Old(mono.MonolithModel):
    """Every event adds exactly 1 to the row of its own number, in a table that another feature shares."""

    name, older, threshold = "uid", (), 0

    def __init__(self, params=None):
        super().__init__(params)
        self.create_embedding_feature_column(
            self.name, extra_restore_names=self.older, occurrence_threshold=self.threshold, **RULES
        )
        self.create_embedding_feature_column("req_time", shared_name=self.name, **RULES)

    def input_fn(self, mode):
        return Events(EVENTS, ids=self.name)

    def model_fn(self, features, mode):
        count, times = self.lookup_embedding_slice([self.name, "req_time"], slice_dim=1)
        pred = count.squeeze(1)
        loss = -pred.sum() - 0 * times.sum()
        return mono.EstimatorSpec(label=features["value"], pred=pred, loss=loss, classification=False)


class New(Old):
    """The same model with another name of its feature."""

    name, older = "user", ["person", "uid"]


class OldThreshold(Old):
    """An id gets a row when it is seen the second time."""

    threshold = 1


class NewThreshold(OldThreshold):
    """The same with another name."""

    name, older = "user", ["uid"]


def train(model, folder, steps=None, **settings):
    config = RunnerConfig(model_dir=folder, **QUIET, **settings)
    return mono.Estimator(model, config).train(steps=steps)


def counted(model, folder):
    """The sum of all rows that the model finds."""
    found = mono.Estimator(model, mono.RunConfig(model_dir=folder)).predict(yield_single_examples=False)
    return sum(float(values.sum()) for one in found for values in one.values())


@pytest.fixture
def folder(tmp_path):
    """A folder with two steps of the old model: a snapshot and a delta on it."""
    train(Old, tmp_path, steps=2, delta_every_steps=1, save_checkpoints_steps=100)
    return tmp_path


def through_run_config(folder):
    mono.Estimator(New, mono.RunConfig(model_dir=folder, **QUIET)).train()


def through_runner_config(folder):
    train(New, folder, delta_every_steps=1)


def through_local_train(folder):
    local_train_internal(InstantiableParams(New), RunnerConfig(**QUIET), folder)


def through_the_command(folder):
    done = CliRunner().invoke(app, ["train", f"{__name__}:New", f"--model-dir={folder}"])
    assert done.exit_code == 0, done.output


DOORS = [through_run_config, through_runner_config, through_local_train, through_the_command]


@pytest.mark.parametrize("door", DOORS)
def test_a_renamed_feature_keeps_its_rows(door, folder):
    door(folder)
    assert counted(New, folder) == EVENTS  # every event once: those of before the change, and the rest

    class Settled(New):
        older = ()

    assert counted(Settled, folder) == EVENTS  # the newest snapshot has the new name


def test_a_snapshot_of_the_old_name_is_evaluated_asked_and_exported(folder):
    pytest.importorskip("onnx")
    estimator = mono.Estimator(New, mono.RunConfig(model_dir=folder))
    assert counted(New, folder) == 8
    assert estimator.evaluate()["num_events"] == EVENTS
    version = estimator.export_saved_model()
    assert "user" in (version / "model.json").read_text()


def test_without_the_old_name_the_error_names_it(folder):
    class Forgetful(New):
        older = ()

    with pytest.raises(PlanMismatchError, match=r"takes its old rows with extra_restore_names=\['uid'\]"):
        train(Forgetful, folder)


def test_a_name_is_not_enough_if_the_table_differs(folder):
    class Wider(New):
        def model_fn(self, features, mode):
            counts = self.lookup_embedding_slice([self.name, "req_time"], slice_dim=2)
            pred = counts[0].sum(1)
            return mono.EstimatorSpec(label=features["value"], pred=pred, loss=-pred.sum(), classification=False)

    with pytest.raises(PlanMismatchError, match="undo the change of the model"):
        train(Wider, folder)


def test_sightings_of_ids_without_a_row_move_to_the_new_name(tmp_path):
    train(OldThreshold, tmp_path / "old")
    assert counted(OldThreshold, tmp_path / "old") == 0
    train(NewThreshold, tmp_path / "new", restore_dir=str(tmp_path / "old"))
    assert counted(NewThreshold, tmp_path / "new") == EVENTS


def test_draws_of_a_probabilistic_filter_go_on(tmp_path):
    def draws(model, steps):
        train(model, tmp_path, steps=steps, filter_type="probabilistic_filter")
        newest = mono.Estimator(model, mono.RunConfig(model_dir=tmp_path)).latest_checkpoint()
        return read_manifest(Path(newest)).extra["draws"]

    before = draws(OldThreshold, steps=3)["uid"]
    assert before <= draws(NewThreshold, steps=1)["user"]


class Task(NativeTask):
    """A task of the original's kind: its slot has a name, and so has the column that reads it."""

    slot, older = "", ()

    def create_input_fn(self, mode):
        return lambda: Events(EVENTS)

    def create_model_fn(self):
        def model_fn(features, mode, config):
            slot = self.ctx.create_feature_slot(
                FeatureSlotConfig(
                    name=self.slot,
                    extra_restore_names=self.older,
                    default_vec_optimizer=RULES["optimizer"],
                    default_vec_initializer=RULES["initializer"],
                )
            )
            pred = FeatureColumnV1(slot, "uid").embedding_lookup(slot.add_feature_slice(1)).squeeze(1)
            return TaskSpec(pred, loss=-pred.sum(), label=features["value"])

        return model_fn


@pytest.mark.parametrize("old", ["slot_1", "uid"])
def test_a_renamed_slot_of_a_task_keeps_its_rows(old, tmp_path):
    train(type("Task", (Task,), {"slot": old}), tmp_path, steps=2)
    renamed = type("Task", (Task,), {"slot": "fc_slot_1", "older": (old,)})
    train(renamed, tmp_path)
    assert counted(renamed, tmp_path) == EVENTS


def test_one_text_is_not_a_list_of_names():
    with pytest.raises(TypeError, match=r"feature 'user': extra_restore_names must be a list of names, got 'uid'"):
        mono.MonolithModel().create_embedding_feature_column("user", extra_restore_names="uid")


def test_a_feature_that_shares_a_table_has_no_older_names():
    model = mono.MonolithModel()
    with pytest.raises(ValueError, match="shares the table of 'uid'; set extra_restore_names of that one"):
        model.create_embedding_feature_column("user", shared_name="uid", extra_restore_names=["person"])
