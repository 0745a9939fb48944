"""The controller within one process: what each request does to a run, and who may ask."""

import stat
import threading

import pytest

import monolith as mono
from monolith.checkpoint import list_snapshots
from monolith.errors import RemoteError, SecretError
from monolith.train.controller import ControllerClient, QueryActionHook, ServerHook
from monolith.train.controller.query_action import ACTION_FILE, RESPONSE_FILE
from monolith.train.controller.requests import ADDRESS_FILE, Request, ServerAddress
from monolith.wire import Client, Message, SharedSecret
from tests.patience import PATIENCE_SECONDS
from tests.train.counting_model import train


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
