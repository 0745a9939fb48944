"""What a chief says of parameter servers that are not well, or well again."""

import logging
import threading

import pytest

from monolith.hooks import RunContext
from monolith.observe.machine_health import NO_LIMIT, MachineInfo
from monolith.parallel import ParameterServer, RemoteShard
from monolith.train.health.server_health import ServerHealthHook
from monolith.wire import SharedSecret
from tests.patience import PATIENCE_SECONDS

SECRET = SharedSecret(b"s" * 32, "a test")


def answer(status="OK", message="", state="serving", index=0):
    health = {"status": status, "message": message, "memory_bytes": 7, "memory_limit_bytes": 5}
    return {"address": f"127.0.0.1:{7000 + index}", "state": state, "health": health}


FULL = answer("OUT_OF_MEMORY", "Memory limit exceeded. Current: 7, Limit: 5")
LOST = {"address": "127.0.0.1:7000", "state": "lost: it hung up"}


@pytest.fixture
def warnings_of(caplog):
    def warnings_of(*answers):
        hook = ServerHealthHook(list)
        with caplog.at_level(logging.WARNING):
            for servers in answers:
                hook.note(servers)
        return [record.getMessage() for record in caplog.records], hook.problems

    return warnings_of


def test_a_change_is_said_once(warnings_of):
    more = answer("OUT_OF_MEMORY", "Memory limit exceeded. Current: 8, Limit: 5")
    words, problems = warnings_of([answer()], [FULL], [more], [answer()], [answer()], [FULL])
    assert [one[:45] for one in words] == [
        "parameter server 0 (127.0.0.1:7000) is not we",
        "parameter server 0 (127.0.0.1:7000) is well a",
        "parameter server 0 (127.0.0.1:7000) is not we",
    ]
    assert "Current: 7, Limit: 5. Give the job more" in words[0]
    assert problems is not None
    assert "Current: 7, Limit: 5" in problems


def test_a_server_that_is_silent_and_comes_back(warnings_of):
    words, problems = warnings_of([LOST, answer(index=1)], [LOST, answer(index=1)], [answer(), answer(index=1)])
    assert [one.split(") ")[1] for one in words] == ["does not answer (lost: it hung up)", "is well again"]
    assert problems is None


def test_a_server_of_an_earlier_version_counts_as_well(warnings_of):
    assert warnings_of([{"address": "127.0.0.1:7000", "state": "serving", "health": {}}]) == ([], None)


def test_servers_are_asked_while_a_run_goes_also_after_a_question_failed(caplog):
    asked, again = [], threading.Event()

    def ask():
        asked.append(threading.current_thread())
        if len(asked) == 1:
            raise ValueError("the question failed")
        again.set()
        return [FULL]

    hook, context = ServerHealthHook(ask, every_seconds=0.01), RunContext(model=None, tables=None)
    hook.after_create_session(context)
    assert again.wait(PATIENCE_SECONDS)
    hook.end(context)
    asked[0].join(PATIENCE_SECONDS)  # what it still says is not for the next test's ears
    assert "could not be asked how they are" in caplog.text


def test_an_answer_after_the_end_of_a_run_counts_no_more():
    asked, ended, asking = threading.Event(), threading.Event(), []

    def ask():
        asking.append(threading.current_thread())
        asked.set()
        ended.wait(PATIENCE_SECONDS)
        return [LOST]

    hook, context = ServerHealthHook(ask), RunContext(model=None, tables=None)
    hook.after_create_session(context)
    assert asked.wait(PATIENCE_SECONDS)
    hook.end(context)
    ended.set()
    asking[0].join(PATIENCE_SECONDS)
    assert hook.problems is None


@pytest.mark.parametrize(("limit", "status"), [(1, "OUT_OF_MEMORY"), (NO_LIMIT, "OK")])
def test_a_server_reports_its_health_also_while_it_is_empty(limit, status):
    with (
        ParameterServer(secret=SECRET, machine=MachineInfo(limit)) as server,
        RemoteShard(server.address, secret=SECRET) as shard,
    ):
        health = shard.status()["health"]
    assert health["status"] == status
    assert health["memory_bytes"] > 1
    assert health["memory_limit_bytes"] == (None if limit == NO_LIMIT else limit)
    assert ("Limit: 1" in health["message"]) == (limit == 1)
