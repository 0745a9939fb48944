"""Pushes in the background: they go on while there is hope, and never end in silence."""

import threading

from monolith.delta import DeltaLoop
from monolith.errors import FencedError
from monolith.wire import Message
from tests.delta.flaky_serving import make_sender, train
from tests.delta.table_target import content, training_tables


def test_the_loop_delivers_reports_trouble_and_recovers(serving):
    tables = training_tables()
    train(tables, [1])
    arrived = threading.Condition()
    original = serving.receiver.handle

    def telling(message: Message) -> Message:
        reply = original(message)
        with arrived:
            arrived.notify_all()
        return reply

    def wait_until(done) -> None:
        with arrived:
            assert arrived.wait_for(done, 30)

    serving.receiver.handle = telling
    sender = make_sender(tables, serving)
    with DeltaLoop(sender, 0.01, max_pause_seconds=0.02) as loop:
        wait_until(lambda: content(serving.target.tables) == content(tables))
        assert loop.running
        serving.fail = ["before"] * 3
        train(tables, [2])
        wait_until(lambda: content(serving.target.tables) == content(tables))
        wait_until(lambda: loop.last_error is None)
        assert loop.deliveries[serving.address].position.generation == 1
    assert not loop.running
    sender.close()


def test_the_loop_says_what_is_wrong_and_goes_on_while_there_is_hope(serving):
    tables = training_tables()
    serving.close()
    with make_sender(tables, serving) as sender, DeltaLoop(sender, 0.01) as loop:
        wait_for(lambda: isinstance(loop.last_error, ConnectionError))
        assert loop.running and set(loop.errors) == {serving.address}


def test_the_loop_of_a_job_that_was_replaced_ends_and_says_so(serving):
    tables = training_tables()
    serving.receiver.adopt(serving.target, plan_hash=1, generation=9, sequence=0)
    with make_sender(tables, serving, generation=8) as sender, DeltaLoop(sender, 0.01) as loop:
        wait_for(lambda: not loop.running)
        assert isinstance(loop.last_error, FencedError)


def wait_for(condition) -> None:
    """Return once the condition holds; pytest-timeout ends the wait if it never does."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.001)
