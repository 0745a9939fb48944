"""What happens around the saves of a run: listeners, guards, attempts, metrics, tide, dense weights alone."""

import errno
import shutil
import threading
from datetime import UTC, datetime, timedelta

import pytest
import torch
from freezegun import freeze_time

import monolith as mono
from monolith.checkpoint import PendingSave, claim_generation, latest_state, load_dense_only, load_snapshot
from monolith.checkpoint.keep.tide_window import TideConfig
from monolith.checkpoint.save import frozen_state
from monolith.data import Schema
from monolith.embedding import SgdOptimizer
from monolith.errors import FencedError
from monolith.model import make_plan, make_tables
from monolith.native_training.save_utils import NoFirstSaveCheckpointSaverHook
from monolith.train.config import RunnerConfig
from monolith.train.saving import save_lane
from monolith.train.saving.cadence import Cadence
from monolith.train.saving.save_listener import SaveListener
from tests.patience import PATIENCE_SECONDS
from tests.train.counting_model import Counting, Events


class Told(SaveListener):
    def __init__(self):
        self.moments = []

    def before_save(self, step):
        self.moments.append(("before", step))

    def after_save(self, step):
        self.moments.append(("after", step))


class Client:
    """Keeps what it is told."""

    def __init__(self):
        self.seen = []

    def emit_counter(self, key, value, tags=""):
        self.seen.append((key, tags))

    emit_timer = emit_store = emit_counter

    def flush(self):
        pass


def train(model_dir, *, events=20, hooks=(), steps=None, listeners=(), guards=(), **config):
    settings = {"model_dir": model_dir, "log_step_count_steps": 0, "save_summary_steps": 0, **config}
    settings = {"save_checkpoints_steps": 100, **settings} if "save_checkpoints_secs" not in config else settings
    estimator = mono.Estimator(Counting, RunnerConfig(**settings), params=Events(events))
    return estimator.train(hooks=hooks, steps=steps, saving_listeners=listeners, guard_listeners=guards)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def fail_manifests(monkeypatch, calls, error=None):
    """Let some of the manifests, counted from 1, not be written."""
    write, seen = frozen_state.write_manifest, []

    def failing(*arguments):
        seen.append(arguments)
        if len(seen) in calls:
            raise error or OSError(errno.EIO, "the disk is sick")
        write(*arguments)

    monkeypatch.setattr(frozen_state, "write_manifest", failing)
    return seen


def test_listeners_and_guards_are_told_of_each_save_in_order(tmp_path):
    listener, guard = Told(), Told()
    train(tmp_path, listeners=[listener], guards=[guard], save_checkpoints_steps=2)
    steps = [0, 2, 4, 5]
    assert listener.moments == [(moment, step) for step in steps for moment in ("before", "after")]
    assert guard.moments == listener.moments


def test_a_save_that_fails_is_tried_again(tmp_path, monkeypatch):
    seen = fail_manifests(monkeypatch, {2})
    listener, guard = Told(), Told()
    train(tmp_path, listeners=[listener], guards=[guard])
    # The one at the end of the run failed once.
    assert len(seen) == 3
    assert latest_state(tmp_path).name == "model.ckpt-5"
    assert listener.moments == [("before", 0), ("after", 0), ("before", 5), ("before", 5), ("after", 5)]
    assert guard.moments[2:] == [("before", 5), ("after", 5)] * 2


def test_guards_are_told_also_when_a_save_fails_for_good(tmp_path, monkeypatch):
    fail_manifests(monkeypatch, {2, 3})
    listener, guard = Told(), Told()
    with pytest.raises(OSError, match="Input/output error"):
        train(tmp_path, listeners=[listener], guards=[guard])
    assert listener.moments[2:] == [("before", 5), ("before", 5)]
    assert guard.moments[2:] == [("before", 5), ("after", 5)] * 2


def test_guards_are_told_when_a_listener_fails(tmp_path):
    class Failing(SaveListener):
        def before_save(self, step):
            raise RuntimeError("a listener fails")

    first, never = Told(), Told()
    with pytest.raises(RuntimeError, match="a listener fails"):
        train(tmp_path, guards=[first, Failing(), never])
    assert first.moments == [("before", 0), ("after", 0)]
    assert never.moments == []


REALTIME = {"enable_realtime_training": True, "base_name": "movie", "sync_targets": ["unix:/nobody/listens"]}


@pytest.mark.parametrize("config", [{"ignore_save_errors": True}, REALTIME])
def test_errors_may_be_ignored_and_the_next_save_is_another_chance(tmp_path, monkeypatch, config):
    fail_manifests(monkeypatch, {2, 3})
    result = train(tmp_path, save_checkpoints_steps=3, **config)
    assert result.global_step == 5
    assert [name for name in names_in(tmp_path) if "ckpt" in name] == ["model.ckpt-0", "model.ckpt-5"]


def test_an_error_of_dense_weights_alone_is_ignored_to_the_end(tmp_path, monkeypatch):
    fail_manifests(monkeypatch, {2, 3})
    settings = {"dense_only_save_checkpoints_steps": 3, "dense_only_stop_training_when_save": True}
    assert train(tmp_path, ignore_save_errors=True, **settings).global_step == 5
    assert names_in(tmp_path) == ["dense_only", "model.ckpt-0", "model.ckpt-5"]


def test_a_run_that_was_taken_over_is_neither_tried_again_nor_ignored(tmp_path, monkeypatch):
    seen = fail_manifests(monkeypatch, {2}, FencedError("taken over"))
    with pytest.raises(FencedError):
        train(tmp_path, ignore_save_errors=True)
    assert len(seen) == 2


def test_dense_weights_alone_are_fenced_too(tmp_path):
    class TakesOver(mono.Hook):
        """Another trainer begins in the folder, such as one that holds this machine for dead."""

        def after_run(self, context, values):
            if context.global_step == 3:
                claim_generation(tmp_path, 0)
                (tmp_path / "owner.lock").write_text('{"pid": 17, "host": "elsewhere"}')

    settings = {"dense_only_save_checkpoints_steps": 2, "dense_only_stop_training_when_save": True}
    with pytest.raises(FencedError, match=r'dense_only/model\.ckpt-4 is not written.*"pid": 17, "host": "elsewhere"'):
        train(tmp_path, hooks=[TakesOver()], ignore_save_errors=True, **settings)
    assert names_in(tmp_path / "dense_only") == ["model.ckpt-2"]
    assert names_in(tmp_path) == ["dense_only", "model.ckpt-0"]


def test_metrics_tell_of_saves(tmp_path, monkeypatch):
    client = Client()
    monkeypatch.setattr(save_lane, "get_cli", lambda: client)
    fail_manifests(monkeypatch, {2})
    train(tmp_path, dense_only_save_checkpoints_steps=3, dense_only_stop_training_when_save=True)
    success = ["save_checkpoint", "save_checkpoint_time"]
    assert client.seen == [
        *((key, "mode=full") for key in success),
        *((key, "mode=dense_only") for key in ["save_checkpoint_failed", *success]),
        *((key, "mode=full") for key in success),
    ]


def test_dense_weights_alone_have_a_cadence_and_a_folder_of_their_own(tmp_path):
    train(tmp_path, dense_only_save_checkpoints_steps=2, save_checkpoints_steps=4)
    # At step 4 everything is saved anyway.
    assert names_in(tmp_path / "dense_only") == ["model.ckpt-2"]
    path = tmp_path / "dense_only" / "model.ckpt-2"
    assert set(load_dense_only(path)) == set()  # the model has none
    plan = make_plan(Counting(None), Schema.of(uid="int64", value="float32"))
    tables = make_tables(plan)
    with pytest.raises(ValueError, match="dense weights only"):
        load_snapshot(path, plan=plan, tables=tables)


def test_what_a_crash_left_among_dense_weights_is_gone_after_the_next_start(tmp_path):
    settings = {"dense_only_save_checkpoints_steps": 2, "save_checkpoints_steps": 100}
    train(tmp_path, steps=3, **settings)
    dense = tmp_path / "dense_only"
    assert names_in(dense) == ["model.ckpt-2"]
    shutil.copytree(dense / "model.ckpt-2", dense / "model.ckpt-1")
    (dense / "model.ckpt-1" / "manifest.json").unlink()
    for name in ("model.ckpt-4.tmp", "model.ckpt-2.replaced"):
        shutil.copytree(dense / "model.ckpt-2", dense / name)
    (dense / "checkpoint.tmp").write_text("half a li")
    train(tmp_path, steps=1, no_first_save=True)  # of this run there are none
    assert sorted(path.name for path in dense.iterdir()) == ["checkpoint", "model.ckpt-2", "monolith_checkpoint"]


def test_dense_weights_alone_are_saved_at_each_of_their_steps_however_slow_the_disk(tmp_path, monkeypatch):
    write, wait, somebody_waits = frozen_state.write_manifest, PendingSave.wait, threading.Event()

    def slow(*arguments):
        assert somebody_waits.wait(PATIENCE_SECONDS)
        write(*arguments)

    def told(pending):
        somebody_waits.set()
        return wait(pending)

    monkeypatch.setattr(frozen_state, "write_manifest", slow)
    monkeypatch.setattr(PendingSave, "wait", told)
    train(tmp_path, no_first_save=True, dense_only_save_checkpoints_steps=1)
    assert names_in(tmp_path / "dense_only") == [f"model.ckpt-{step}" for step in range(1, 6)]


@pytest.mark.parametrize(
    ("period", "names"),
    [
        ({"save_checkpoints_secs": 3600}, ["model.ckpt-5"]),
        ({"save_checkpoints_steps": 3}, ["model.ckpt-3", "model.ckpt-5"]),
    ],
)
def test_no_first_save(tmp_path, period, names):
    """Neither before the first step nor right after it: the first is due when a period has passed."""
    train(tmp_path, no_first_save=True, **period)
    assert names_in(tmp_path) == names


def test_a_run_that_goes_on_without_a_first_save_counts_from_the_last_one(tmp_path):
    train(tmp_path, no_first_save=True, steps=2, save_checkpoints_secs=3600)
    with freeze_time(datetime.now(UTC) + timedelta(hours=2)):
        train(tmp_path, no_first_save=True, steps=2, save_checkpoints_secs=3600)
    assert names_in(tmp_path) == ["model.ckpt-2", "model.ckpt-3", "model.ckpt-4"]


def test_the_hook_saves_by_its_own_cadence_and_calls_guards(tmp_path):
    guard, listener = Told(), Told()
    hook = NoFirstSaveCheckpointSaverHook(tmp_path, save_steps=2, listeners=[listener], guard_saver_listeners=[guard])
    train(tmp_path, hooks=[hook], no_first_save=True)
    assert names_in(tmp_path) == ["model.ckpt-2", "model.ckpt-4", "model.ckpt-5"]
    assert guard.moments == listener.moments == [("before", 2), ("after", 2), ("before", 4), ("after", 4)]


def test_the_hook_calls_guards_when_a_save_fails_and_may_ignore_it(tmp_path, monkeypatch):
    fail_manifests(monkeypatch, {2, 3})
    guard, listener = Told(), Told()
    hook = NoFirstSaveCheckpointSaverHook(
        tmp_path, save_steps=3, listeners=[listener], guard_saver_listeners=[guard], ignore_save_errors=True
    )
    train(tmp_path, hooks=[hook])
    assert guard.moments == [("before", 3), ("after", 3)]
    assert listener.moments == [("before", 3)]
    assert names_in(tmp_path) == ["model.ckpt-0", "model.ckpt-5"]


def test_the_hook_may_save_dense_weights_alone(tmp_path):
    guard = Told()
    hook = NoFirstSaveCheckpointSaverHook(
        tmp_path / "dense_only", save_steps=2, guard_saver_listeners=[guard], is_dense_only=True
    )
    train(tmp_path, hooks=[hook], events=32, save_checkpoints_steps=4)
    # At the steps 4 and 8 everything is saved anyway.
    assert names_in(tmp_path / "dense_only") == ["model.ckpt-2", "model.ckpt-6"]
    assert names_in(tmp_path) == ["dense_only", "model.ckpt-0", "model.ckpt-4", "model.ckpt-8"]
    assert guard.moments[:2] == [("before", 2), ("after", 2)]


def test_dense_weights_alone_are_not_saved_twice_for_one_step(tmp_path, monkeypatch):
    seen = fail_manifests(monkeypatch, set())
    hook = NoFirstSaveCheckpointSaverHook(tmp_path / "dense_only", save_steps=3, is_dense_only=True)
    settings = {"dense_only_save_checkpoints_steps": 3, "dense_only_stop_training_when_save": True}
    train(tmp_path, hooks=[hook], no_first_save=True, **settings)
    assert [manifest.step for _, manifest in seen] == [3, 5]


def test_a_save_of_dense_weights_alone_that_fails_calls_guards_and_may_be_ignored(tmp_path, monkeypatch):
    fail_manifests(monkeypatch, {1, 2})
    guard = Told()
    hook = NoFirstSaveCheckpointSaverHook(
        tmp_path, save_steps=3, guard_saver_listeners=[guard], ignore_save_errors=True, is_dense_only=True
    )
    train(tmp_path, hooks=[hook], no_first_save=True)
    assert guard.moments == [("before", 3), ("after", 3)]
    assert names_in(tmp_path) == ["dense_only", "model.ckpt-5"]
    assert names_in(tmp_path / "dense_only") == []


def test_the_last_step_is_saved_as_a_whole_although_its_dense_weights_are(tmp_path):
    train(tmp_path, dense_only_save_checkpoints_steps=5)
    assert names_in(tmp_path / "dense_only") == ["model.ckpt-5"]
    assert names_in(tmp_path) == ["dense_only", "model.ckpt-0", "model.ckpt-5"]


def test_a_save_can_be_triggered(tmp_path):
    saver = NoFirstSaveCheckpointSaverHook(tmp_path, save_secs=3600)

    class Trigger(mono.Hook):
        def after_run(self, context, values):
            if context.global_step == 3:
                saver.trigger_save(context)
                assert context.saved_step == 3

    train(tmp_path, hooks=[saver, Trigger()])
    assert names_in(tmp_path) == ["model.ckpt-0", "model.ckpt-3", "model.ckpt-5"]


def test_outside_the_tide_window_other_seconds_are_in_force(tmp_path):
    tide = TideConfig(start_hour=8, start_minute=0, end_hour=10, end_minute=0, save_seconds=600)
    cadence = Cadence(None, 60.0, tmp_path, tide)
    with freeze_time("2023-11-08 09:00:00") as clock:
        cadence.note(1)
        clock.tick(59)
        assert not cadence.is_due(2)
        clock.tick(1)
        assert cadence.is_due(2)
        clock.move_to("2023-11-08 12:00:00")
        cadence.note(2)
        clock.tick(599)
        assert not cadence.is_due(3)
        clock.tick(1)
        assert cadence.is_due(3)


def test_outside_the_tide_window_seconds_are_in_force_instead_of_steps(tmp_path):
    tide = TideConfig(start_hour=8, start_minute=0, end_hour=10, end_minute=0, save_seconds=600)
    cadence = Cadence(5, None, tmp_path, tide)
    with freeze_time("2023-11-08 09:00:00") as clock:
        cadence.note(1)
        assert [step for step in range(2, 12) if cadence.is_due(step)] == [5, 10]
        clock.move_to("2023-11-08 12:00:00")
        cadence.note(12)
        clock.tick(599)
        assert not cadence.is_due(15)
        clock.tick(1)
        assert cadence.is_due(16)


def test_expired_rows_go_when_a_snapshot_is_written(tmp_path):
    class Fleeting(Counting):
        def __init__(self, params):
            mono.MonolithModel.__init__(self, params)
            self.create_embedding_feature_column("uid", expire_time=1, optimizer=SgdOptimizer(learning_rate=1.0))

    class Jump(Events):
        """Two days between the batches."""

        def __iter__(self):
            for batch in super().__iter__():
                batch.columns["req_time"] = batch.columns["req_time"] + 2 * 86_400 * (batch.first // 4)
                yield batch

    rows = {}
    for wanted in (False, True):
        settings = RunnerConfig(
            model_dir=tmp_path / str(wanted),
            feature_eviction_on_save=wanted,
            evict_every_seconds=0,
            event_time_jump_seconds=3 * 86_400,
            save_checkpoints_steps=100,
            log_step_count_steps=0,
            save_summary_steps=0,
        )
        estimator = mono.Estimator(Fleeting, settings, params=Jump(12))
        estimator.train()
        plan = make_plan(Fleeting(Jump(12)), Jump(12).schema)
        tables = make_tables(plan)
        load_snapshot(estimator.latest_checkpoint(), plan=plan, tables=tables)
        rows[wanted] = len(tables["uid"])
    assert rows == {False: 12, True: 4}
    assert torch.equal(tables["uid"].contains(torch.arange(12)), torch.arange(12) >= 8)
