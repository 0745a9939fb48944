"""What a run does with a hook that raises, and with one that asks for a snapshot."""

import pytest

import monolith as mono
from monolith.checkpoint import latest_state, list_snapshots
from tests.train.counting_model import BATCH, Events, train
from tests.train.recorder import Recorder


class Failing(mono.Hook):
    """Raises at one moment, once `at_step` steps are taken."""

    def __init__(self, moment, at_step):
        self.moment, self.at_step = moment, at_step

    def _maybe(self, moment, context):
        if moment == self.moment and context.global_step >= self.at_step:
            raise RuntimeError("the pager is on fire")

    def before_run(self, context):
        self._maybe("before_run", context)

    def after_run(self, context, values):
        self._maybe("after_run", context)

    def end(self, context):
        self._maybe("end", context)


@pytest.mark.parametrize("moment", ["before_run", "after_run"])
def test_a_hook_that_raises_ends_the_run_and_loses_nothing(tmp_path, moment):
    recorder = Recorder()
    with pytest.raises(RuntimeError, match="the pager is on fire") as raised:
        train(tmp_path, hooks=[Failing(moment, 3), recorder])
    assert latest_state(tmp_path).name == "model.ckpt-3"
    assert raised.value.__notes__ == [
        f"training stopped at step 3; {tmp_path} has a snapshot of step 3: run again to go on from there"
    ]
    assert recorder.moments[-1] == "end"
    assert recorder.error is raised.value
    again = Recorder()
    assert train(tmp_path, hooks=[again]).global_step == 5
    assert again.first_step == 3
    assert again.rows["uid"] == {one: [1.0] for one in range(20)}


def test_a_source_that_raises_ends_the_run_and_loses_nothing(tmp_path, monkeypatch):
    whole = Events.__iter__

    def damaged(events):
        for batch in whole(events):
            if batch.first == 3 * BATCH:
                raise OSError("the record is damaged")
            yield batch

    with monkeypatch.context() as patch, pytest.raises(OSError, match="the record is damaged"):
        patch.setattr(Events, "__iter__", damaged)
        train(tmp_path)
    assert latest_state(tmp_path).name == "model.ckpt-3"
    again = Recorder()
    assert train(tmp_path, hooks=[again]).global_step == 5
    assert again.first_step == 3
    assert again.rows["uid"] == {one: [1.0] for one in range(20)}


def test_an_error_of_the_step_writes_no_snapshot_and_says_from_where_to_go_on(tmp_path):
    with pytest.raises(ZeroDivisionError) as raised:
        train(tmp_path, hooks=[_BreakTheModel()], save_checkpoints_steps=2)
    assert latest_state(tmp_path).name == "model.ckpt-2"
    assert "has a snapshot of step 2" in raised.value.__notes__[0]


class _BreakTheModel(mono.Hook):
    def before_run(self, context):
        if context.global_step == 3:
            context.model.backward = lambda loss: 1 / 0


def test_a_hook_that_fails_at_the_end_does_not_keep_others_from_it(tmp_path):
    recorder = Recorder()
    with pytest.raises(RuntimeError, match="pager"):
        train(tmp_path, hooks=[Failing("end", 0), recorder])
    assert recorder.moments[-1] == "end"
    assert latest_state(tmp_path).name == "model.ckpt-5"


def test_the_error_of_the_run_is_told_not_that_of_the_end(tmp_path, caplog):
    with pytest.raises(RuntimeError, match="pager"), caplog.at_level("ERROR"):
        train(tmp_path, hooks=[Failing("after_run", 2), _BadEnd()])
    assert "a hook failed at the end of the run" in caplog.text


class _BadEnd(mono.Hook):
    def end(self, context):
        raise ValueError("another error")


class Asking(mono.Hook):
    """Asks for a snapshot at one moment of step 2, and remembers what was saved when."""

    def __init__(self, moment):
        self.moment = moment
        self.seen = []

    def before_run(self, context):
        self.seen.append((context.global_step, context.saved_step))
        if self.moment == "before_run" and context.global_step == 2:
            context.request_save()
        if self.moment == "at once" and context.global_step == 2:
            context.save()

    def after_run(self, context, values):
        if self.moment == "after_run" and context.global_step == 2:
            context.request_save()


@pytest.mark.parametrize(("moment", "saved"), [("before_run", 3), ("after_run", 2), ("at once", 2)])
def test_a_snapshot_that_a_hook_asks_for_is_written_after_the_present_step(tmp_path, moment, saved):
    asking = Asking(moment)
    train(tmp_path, hooks=[asking])
    assert [path.name for path in list_snapshots(tmp_path)] == [f"model.ckpt-{step}" for step in (0, saved, 5)]
    assert asking.seen[-1] == (4, saved)


def test_hooks_see_what_the_model_said_of_which_batch(tmp_path):
    class Watching(mono.Hook):
        def after_run(self, context, values):
            assert values.batch.columns["uid"].tolist() == list(range(values.first, values.last))
            assert values.spec.pred.shape == (4,)
            self.seen = values.step

    watching = Watching()
    train(tmp_path, hooks=[watching])
    assert watching.seen == 4
