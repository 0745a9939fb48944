"""The controller within one process: what each request does to a run, and who may ask."""

import stat
import threading
from contextlib import contextmanager

import pytest

import monolith as mono
from monolith.checkpoint import list_snapshots
from monolith.errors import RemoteError, SecretError
from monolith.hooks import RunContext
from monolith.train.config import RunnerConfig
from monolith.train.controller import ControllerClient, Pause, QueryActionHook, ServerHook
from monolith.train.controller.query_action import ACTION_FILE, RESPONSE_FILE
from monolith.train.controller.requests import ADDRESS_FILE, Request, ServerAddress
from monolith.wire import Client, Message, SharedSecret
from tests.patience import PATIENCE_SECONDS
from tests.train.counting_model import Counting, Events, train


class Ask(mono.Hook):
    """Lets a function ask from another thread at step 2; the run goes on meanwhile, as far as it may."""

    def __init__(self, ask):
        self.thread = threading.Thread(target=self._run, args=(ask,), daemon=True)
        self.error = None

    def _run(self, ask):
        try:
            ask()
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self.error = error

    def after_run(self, context, values):
        if context.global_step == 2:
            self.thread.start()
            # The first request has been answered once the run is stopped, or the asking is over.
            while self.thread.is_alive() and not context.pause.is_placed:
                self.thread.join(0.01)

    def end(self, context):
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


def run(model_dir, ask, **config):
    hook, asking = ServerHook(model_dir), Ask(ask)
    result = train(model_dir, hooks=[asking, hook], **config)
    if asking.error is not None:
        raise asking.error
    return result


def until(condition):
    deadline = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.01)):
        if condition():
            return
        deadline.wait(0.01)
    raise TimeoutError("it did not happen in time")


def test_stop_status_save_and_resume(tmp_path):
    seen = {}

    def ask():
        with ControllerClient(tmp_path) as client:
            client.stop_training()
            until(lambda: client.get_block_status() == ([0], []))
            seen["blocked"] = client.get_training_status()
            with pytest.raises(RemoteError, match="ALREADY_EXISTS: Barrier is placed already."):
                client.stop_training()
            # A run that waits writes its snapshot all the same.
            seen["saved"] = client.save_checkpoint()
            seen["still"] = client.get_training_status()
            client.resume_training()

    assert run(tmp_path, ask).global_step == 5
    assert (seen["blocked"].global_step, seen["blocked"].stopped, seen["blocked"].blocked) == (2, True, True)
    assert seen["blocked"].saved_step == 0
    assert seen["saved"] == 2
    assert (seen["still"].global_step, seen["still"].saved_step) == (2, 2)
    assert [path.name for path in list_snapshots(tmp_path)] == ["model.ckpt-0", "model.ckpt-2", "model.ckpt-5"]
    assert not (tmp_path / ADDRESS_FILE).exists()


def test_a_run_that_is_asked_to_end_while_it_waits_ends(tmp_path):
    class StopIt(mono.Hook):
        def after_create_session(self, context):
            self.context = context

    stop = StopIt()

    def ask():
        with ControllerClient(tmp_path) as client:
            client.stop_training()
            until(lambda: client.get_block_status() == ([0], []))
            stop.context.request_stop()

    hook, asking = ServerHook(tmp_path), Ask(ask)
    # The batch at hand is trained on, and that was all.
    assert train(tmp_path, hooks=[stop, asking, hook]).global_step == 3
    assert asking.error is None


def test_only_who_can_read_the_file_is_heard(tmp_path):
    def ask():
        path = tmp_path / ADDRESS_FILE
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for guess in (None, SharedSecret.new("a guess")):
            with Client(ServerAddress.read(tmp_path).address, secret=guess) as stranger:
                with pytest.raises(SecretError, match="secret"):
                    stranger.request(Message(type=int(Request.STOP_TRAINING)), 30)
        with ControllerClient(tmp_path) as client:
            assert not client.get_training_status().stopped

    run(tmp_path, ask)


def test_where_nobody_listens_the_error_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="start it with enable_controller=True"):
        ControllerClient(tmp_path)
    ServerAddress("127.0.0.1:1", SharedSecret.new("a test")).write(tmp_path)
    with pytest.raises(ConnectionError, match="does not answer; it may have ended"):
        ControllerClient(tmp_path).get_training_status()


@pytest.mark.parametrize(
    ("text", "answer", "last_step"),
    [
        ("action: TRIGGER_SAVE\n", "OK", 5),
        ("action: STOP", "OK", 2),
        ("action: DANCE", "Unknown action: DANCE; the actions are TRIGGER_SAVE and STOP", 5),
        ("please stop", "This is no action, which looks like \"action: TRIGGER_SAVE\": 'please stop'", 5),
    ],
)
def test_a_file_asks(tmp_path, text, answer, last_step):
    class Write(mono.Hook):
        def after_run(self, context, values):
            if context.global_step == 2:
                (tmp_path / "new").write_text(text)
                (tmp_path / "new").rename(tmp_path / ACTION_FILE)
                until((tmp_path / RESPONSE_FILE).exists)

    train(tmp_path, hooks=[QueryActionHook(tmp_path, every_seconds=0.01), Write()])
    assert (tmp_path / RESPONSE_FILE).read_text() == answer
    assert not (tmp_path / ACTION_FILE).exists()
    expected = {0, last_step} | ({2} if "SAVE" in text else set())
    assert [path.name for path in list_snapshots(tmp_path)] == [f"model.ckpt-{step}" for step in sorted(expected)]


class JobOfOthers(Pause):
    """The pause of a chief whose workers are at step 9."""

    step_of_others = 9


@contextmanager
def listening(folder, pause):
    """A hook that listens for a run that is at step 3 and has saved it, and a client."""
    hook, context = ServerHook(folder), RunContext(model=None, tables=None, global_step=3, pause=pause)
    context.saved_step = 3
    hook.after_create_session(context)
    try:
        with ControllerClient(folder) as client:
            yield client, context
    finally:
        hook.end(context)


def test_a_run_that_waits_for_events_and_has_saved_its_step_says_so_at_once(tmp_path):
    with listening(tmp_path, Pause()) as (client, context):
        assert client.save_checkpoint() == client.get_training_status().global_step == 3
        assert not context.save_requested


def test_a_chief_does_not_take_its_own_snapshot_for_one_of_the_steps_of_others(tmp_path):
    with listening(tmp_path, JobOfOthers()) as (client, context):
        assert client.get_training_status().global_step == 9
        assert client.save_checkpoint(0.2) is None
        context.saved_step = 9  # by a save that began before somebody asked
        assert client.save_checkpoint(0.2) is None
        asked = context.num_save_requests
        context.save_answered = asked + 1
        assert client.save_checkpoint() == 9


def test_where_nothing_is_trained_the_hook_leaves_the_run_that_trains_alone(tmp_path, caplog):
    train(tmp_path)
    address = ServerAddress("127.0.0.1:1", SharedSecret.new("a run that trains")).write(tmp_path).read_text()
    estimator = mono.Estimator(Counting, RunnerConfig(model_dir=tmp_path), params=Events(8))
    assert estimator.evaluate(hooks=[ServerHook(tmp_path)])["num_events"] == 8
    assert (tmp_path / ADDRESS_FILE).read_text() == address
    assert "ServerHook does nothing here: only a run that trains can be paused and saved" in caplog.text
