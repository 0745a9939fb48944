"""Where a run starts from: the newest, a named one, another folder; with all of it, or with new dense weights."""

import re

import pytest
import torch

import monolith as mono
from monolith.checkpoint import latest_state, load_snapshot
from monolith.checkpoint.format.state_files import get_checkpoint_state, get_monolith_checkpoint_state
from monolith.checkpoint.keep import rollback
from monolith.data import Schema
from monolith.errors import CorruptFileError
from monolith.model import make_plan, make_tables
from monolith.train.state import RestoreConfig, train_state
from tests.train.counting_model import Counting, Events, train


class Dense(Counting):
    """Counts, and has a dense weight that grows by 1 each step; `names` is what its layer is called."""

    def __init__(self, params, name="scale"):
        super().__init__(params)
        self.name = name
        setattr(self, name, torch.nn.Parameter(torch.zeros(1)))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=1.0, momentum=0.5)

    def model_fn(self, features, mode):
        (count,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        pred = count.squeeze(1)
        loss = -pred.sum() - getattr(self, self.name).sum()
        return mono.EstimatorSpec(
            label=features["value"], pred=pred, loss=loss, optimizer=self.optimizer, classification=False
        )


def run(model_dir, *, events=20, steps=None, name="scale", **config):
    model = Dense(Events(events), name)
    settings = mono.RunConfig(model_dir=model_dir, log_step_count_steps=0, save_summary_steps=0, **config)
    result = mono.Estimator(model, settings).train(steps=steps)
    return model, result


def rows_in(path):
    plan = make_plan(Dense(None), Schema.of(uid="int64", req_time="int64", value="float32", sample_rate="float32"))
    tables = make_tables(plan)
    load_snapshot(path, plan=plan, tables=tables)
    return len(tables["uid"])


def names_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name.startswith("model.ckpt"))


def test_the_text_files_say_what_was_saved(tmp_path):
    train(tmp_path, save_checkpoints_steps=2, checkpoints_max_to_keep=2)
    listed = get_checkpoint_state(tmp_path)
    assert [path.rpartition("/")[2] for path in listed.all_model_checkpoint_paths] == ["model.ckpt-4", "model.ckpt-5"]
    assert listed.model_checkpoint_path == str(tmp_path / "model.ckpt-5")
    assert names_in(tmp_path) == ["model.ckpt-4", "model.ckpt-5"]
    assert get_monolith_checkpoint_state(tmp_path).last_checkpoint_save_timestamp > 0


def test_a_named_one_is_gone_back_to_once(tmp_path):
    run(tmp_path, save_checkpoints_steps=2)
    model, result = run(tmp_path, restore_ckpt="model.ckpt-2", steps=1)
    assert result.global_step == 3
    assert {"model.ckpt-4.rolled-back", "model.ckpt-5.rolled-back", "model.ckpt-3"} <= set(names_in(tmp_path))
    _, result = run(tmp_path, restore_ckpt="model.ckpt-2", steps=1)
    assert result.global_step == 4  # from where the last run ended


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_named_one_in_a_folder_without_any_is_an_error(tmp_path, elsewhere):
    settings = {"restore_dir": str(tmp_path / "old")} if elsewhere else {}
    places = f"{tmp_path / 'new'} nor in {tmp_path / 'old'}" if elsewhere else str(tmp_path / "new")
    with pytest.raises(
        FileNotFoundError,
        match=re.escape(f"restore_ckpt='model.ckpt-2' cannot be restored: there is no checkpoint in {places}."),
    ):
        run(tmp_path / "new", restore_ckpt="model.ckpt-2", **settings)
    assert not names_in(tmp_path / "new")


def test_another_folder_is_started_from_without_its_place_in_the_data(tmp_path):
    trained, _ = run(tmp_path / "old", events=12)
    model, result = run(tmp_path / "new", restore_dir=str(tmp_path / "old"), events=40, steps=1)
    assert result.global_step == 4
    # 12 rows of before, and the first batch again, whose rows are there already.
    assert rows_in(tmp_path / "new" / "model.ckpt-4") == 12
    # Momentum 0.5 and a gradient of 1: steps of 1, 1.5, 1.75, 1.875.
    assert model.scale.item() == 1 + 1.5 + 1.75 + 1.875
    exempt = get_monolith_checkpoint_state(tmp_path / "new").exempt_model_checkpoint_paths
    assert list(exempt) == [str(tmp_path / "old" / "model.ckpt-3")]
    _, result = run(tmp_path / "new", restore_dir=str(tmp_path / "old"), events=40, steps=1)
    assert result.global_step == 5
    assert rows_in(latest_state(tmp_path / "new")) == 12


def test_another_folder_is_started_from_its_last_delta(tmp_path):
    run(tmp_path / "old", save_checkpoints_steps=100, delta_every_steps=1, steps=3)
    assert latest_state(tmp_path / "old").name == "model.ckpt-1.delta-2"
    _, result = run(tmp_path / "new", restore_dir=str(tmp_path / "old"), steps=1)
    assert result.global_step == 4


def test_snapshots_that_are_all_damaged_are_not_given_up_for_another_folder(tmp_path):
    run(tmp_path / "old", steps=1)
    run(tmp_path / "new", restore_dir=str(tmp_path / "old"), steps=1)
    for path in (tmp_path / "new").glob("model.ckpt-*/stream.json"):
        path.write_text("x")
    with pytest.warns(UserWarning, match="is not used"), pytest.raises(CorruptFileError, match="none of the 2"):
        run(tmp_path / "new", restore_dir=str(tmp_path / "old"), steps=1)


@pytest.mark.parametrize("keeps_step", [False, True])
def test_dense_weights_begin_anew_once_and_rows_stay(tmp_path, keeps_step):
    run(tmp_path, steps=3, save_checkpoints_steps=1)
    model, result = run(tmp_path, clear_nn=True, continue_training=keeps_step, steps=1)
    assert model.scale.item() == 1.0
    assert result.global_step == (4 if keeps_step else 1)
    assert rows_in(latest_state(tmp_path)) == 16
    assert (tmp_path / "clear_nn").is_file()
    model, result = run(tmp_path, clear_nn=True, continue_training=keeps_step, steps=1)
    assert model.scale.item() == 2.5
    assert result.global_step == (5 if keeps_step else 2)
    assert rows_in(latest_state(tmp_path)) == 20


def test_a_renamed_weight_is_found_by_its_alias_or_not_at_all(tmp_path):
    run(tmp_path, steps=2)
    with pytest.warns(UserWarning, match="reload_alias_map"), pytest.raises(ValueError, match="do not fit Dense"):
        run(tmp_path, name="factor", steps=1)
    with pytest.raises(ValueError, match="the snapshot has no 'skale'"):
        run(tmp_path, name="factor", reload_alias_map={"factor": "skale"}, steps=1)
    model, result = run(tmp_path, name="factor", reload_alias_map={"factor": "scale"}, steps=1)
    assert model.factor.item() == 1 + 1.5 + 1.75
    assert result.global_step == 3


def test_a_renamed_weight_is_found_when_looking_at_a_model_too(tmp_path):
    run(tmp_path, steps=2)
    settings = mono.RunConfig(model_dir=tmp_path, reload_alias_map={"factor": "scale"})
    assert mono.Estimator(Dense(Events(8), "factor"), settings).evaluate()["global_step"] == 2


@pytest.mark.parametrize("moment", ["_free_name", "mark_cleared"])
def test_a_crash_while_weights_are_cleared_loses_no_row(tmp_path, monkeypatch, moment):
    run(tmp_path, steps=3, save_checkpoints_steps=1)
    owner, calls = (rollback if moment == "_free_name" else train_state), []
    original = getattr(owner, moment)

    def crash(*arguments):
        calls.append(arguments)
        if len(calls) == 2 or moment == "mark_cleared":
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, moment, crash)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, clear_nn=True, steps=1)
    model, result = run(tmp_path, clear_nn=True, steps=1)
    assert result.global_step == 1
    assert model.scale.item() == 1.0
    assert rows_in(latest_state(tmp_path)) == 16


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="alias_map must be None"):
        RestoreConfig(clear_nn=True, alias_map={})
    with pytest.raises(ValueError, match="continue_training"):
        RestoreConfig(continue_training=True)


def test_looking_at_a_model_takes_the_named_one_always_and_leaves_no_trace(tmp_path):
    run(tmp_path, save_checkpoints_steps=2)
    before = sorted(tmp_path.iterdir())
    settings = mono.RunConfig(model_dir=tmp_path, restore_ckpt="model.ckpt-2")
    for _ in range(2):
        assert mono.Estimator(Dense(Events(8)), settings).evaluate()["global_step"] == 2
    assert sorted(tmp_path.iterdir()) == before
