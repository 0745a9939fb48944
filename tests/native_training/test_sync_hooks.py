"""Chief and workers wait for each other, in threads of one process and over a parameter server."""

import threading
from contextlib import ExitStack

import pytest
from torch import nn

from monolith.hooks import RunContext
from monolith.native_training import sync_hooks
from monolith.native_training.sync_hooks import ChiefSyncHook, SyncHelper, TrainingHooksHelper, WorkerSyncHook
from monolith.native_training.test_utils import create_test_ps_cluster
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(sync_hooks, "POLL_SECONDS", 0.02)


@pytest.fixture(params=["one process", "a parameter server"])
def helpers(request):
    """The flags as the chief sees them, and as worker 1 does."""
    with ExitStack() as cleanup:
        if request.param == "one process":
            helper = SyncHelper(2, is_chief=True)
            yield helper, helper
        else:
            (server,), addresses = create_test_ps_cluster(1)
            cleanup.enter_context(server)
            yield tuple(
                cleanup.enter_context(SyncHelper(2, is_chief=is_chief, var_device=addresses["ps"][0]))
                for is_chief in (True, False)
            )


def context(error: BaseException | None = None) -> RunContext:
    return RunContext(model=nn.Module(), tables=None, error=error)


def start(function, *arguments) -> tuple[threading.Thread, threading.Event]:
    done = threading.Event()
    thread = threading.Thread(target=lambda: (function(*arguments), done.set()), daemon=True)
    thread.start()
    return thread, done


def test_sync_process(helpers):
    chiefs, workers = helpers
    chief, worker = ChiefSyncHook(chiefs), WorkerSyncHook(1, workers)
    _, began = start(worker.after_create_session, context())
    while chiefs.get_alive_workers() != [1]:
        pass
    assert not began.wait(0.1), "the worker began before the chief had restored"
    chief.after_create_session(context())
    assert began.wait(PATIENCE_SECONDS)
    assert workers.get_restore_status() and chiefs.get_num_alive_workers() == 1
    _, ended = start(chief.end, context())
    assert not ended.wait(0.1), "the chief ended before the worker"
    worker.end(context())
    assert ended.wait(PATIENCE_SECONDS)
    assert chiefs.get_alive_workers() == []


def test_a_chief_does_not_wait_for_ever_nor_after_an_error(caplog):
    helper = SyncHelper(3, is_chief=True)
    helper.start_worker(1)
    helper.start_worker(2)
    ChiefSyncHook(helper, timeout_seconds=0.05).end(context())
    assert "workers [1, 2] did not end within 0.05 seconds" in caplog.text
    ChiefSyncHook(helper).end(context(ValueError("lost")))


def test_a_failed_worker_counts_as_running_and_a_stop_ends_the_wait():
    helper = SyncHelper(2, is_chief=False)
    hook, stopped = WorkerSyncHook(1, helper), context()
    stopped.request_stop()
    hook.after_create_session(stopped)
    hook.end(context(ValueError("lost")))
    assert helper.get_alive_workers() == [1]


def test_hook_helper():
    off = TrainingHooksHelper(False, 5, 1)
    assert off.training_hooks == off.training_chief_hooks == ()
    chief, worker = TrainingHooksHelper(True, 5, 0), TrainingHooksHelper(True, 5, 1)
    assert [type(one) for one in chief.training_chief_hooks] == [ChiefSyncHook] and chief.training_hooks == ()
    assert [type(one) for one in worker.training_hooks] == [WorkerSyncHook] and worker.training_chief_hooks == ()


@pytest.mark.parametrize("index", [0, 2, -1])
def test_a_number_that_no_worker_has_is_refused(index):
    with pytest.raises(ValueError, match=f"Index {index} is out range"):
        SyncHelper(2, is_chief=False).start_worker(index)
