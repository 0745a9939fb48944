"""The bounded queue and the thread that feeds it: order, errors, and an end that never hangs."""

import gc
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest

from monolith._core import native
from monolith.data.prefetch import Background, BoundedQueue, QueueClosedError
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]


def in_thread(function) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_SECONDS)
    return not thread.is_alive()


def wait_until(condition) -> None:
    """For what another thread does without telling: the end of time is a failure, not a hang."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def test_items_keep_their_order_and_the_bound_holds():
    queue = BoundedQueue(2)
    most = []

    def produce():
        for item in range(200):
            queue.put(item)
            most.append(queue.size())
        queue.close()

    thread = in_thread(produce)
    assert list(queue) == list(range(200))
    assert ended(thread)
    assert max(most) <= 2


def test_a_closed_queue_gives_what_it_has_and_takes_nothing():
    queue = BoundedQueue(3)
    queue.put("a")
    queue.close()
    assert (queue.closed, queue.finished) == (True, False)
    assert queue.offer("b") is False
    with pytest.raises(QueueClosedError, match="nothing can be put"):
        queue.put("b")
    assert queue.get() == "a"
    assert queue.finished
    with pytest.raises(QueueClosedError, match="closed and empty"):
        queue.get()
    assert list(queue) == []


def test_an_error_comes_after_the_items_and_each_time():
    queue = BoundedQueue(3)
    queue.put(1)
    error = KeyError("lost")
    queue.close(error)
    queue.close(ValueError("too late"))
    assert queue.get() == 1
    depths = []
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            queue.get()
        assert caught.value is error
        depths.append(len(traceback.extract_tb(error.__traceback__)))
    assert len(set(depths)) == 1, "the traceback grew"


def test_whoever_waits_is_woken_by_the_end():
    full, empty = BoundedQueue(1), BoundedQueue(1)
    full.put(0)
    results = []
    waiting = [
        in_thread(lambda: results.append(full.offer(1))),
        in_thread(lambda: results.append(list(empty))),
    ]
    full.cancel()
    empty.cancel()
    assert all(ended(thread) for thread in waiting)
    assert sorted(map(str, results)) == ["False", "[]"]
    assert full.size() == 0


def test_a_queue_needs_room():
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        BoundedQueue(0)


def test_items_are_made_ahead_but_not_further_than_the_capacity():
    made = []

    def numbers():
        for number in range(100):
            made.append(number)
            yield number

    with Background(numbers(), capacity=3) as items:
        wait_until(lambda: len(made) == 4)  # three wait in the queue, one in the hand of the thread
        assert next(items) == 0
        wait_until(lambda: len(made) == 5)
        assert [next(items) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert len(made) <= 10


def broken():
    yield 1
    raise_deep_inside()


def raise_deep_inside():
    raise OSError("the disk is gone")


def test_an_exception_travels_with_its_trace():
    items = Background(broken(), capacity=1)
    assert next(items) == 1
    with pytest.raises(OSError, match="the disk is gone") as caught:
        next(items)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "raise_deep_inside" in frames
    assert items.finished


def test_an_iterable_that_cannot_even_begin():
    with pytest.raises(TypeError, match="not iterable"):
        next(Background(5, capacity=1))


def test_the_error_of_another_queue_is_no_end():
    other = BoundedQueue(1)
    other.close()
    with pytest.raises(QueueClosedError):
        list(Background((other.get() for _ in range(2)), capacity=1))


class Endless:
    """Counts for ever and remembers that it was closed."""

    def __init__(self):
        self.closed = threading.Event()

    def __iter__(self):
        number = 0
        try:
            while True:
                yield number
                number += 1
        finally:
            self.closed.set()


def test_closing_ends_the_thread_and_its_iterator():
    endless = Endless()
    items = Background(endless, capacity=2)
    assert next(items) == 0
    items.close()
    assert items.join(PATIENCE_SECONDS)
    assert endless.closed.is_set()
    assert list(items) == []


def test_a_with_block_ends_the_thread_on_an_exception():
    endless = Endless()
    with pytest.raises(ZeroDivisionError), Background(endless, capacity=2) as items:
        1 / next(items)
    assert endless.closed.wait(PATIENCE_SECONDS)


def test_dropping_the_object_ends_the_thread():
    endless = Endless()
    items = Background(endless, capacity=2)
    next(items)
    del items
    gc.collect()
    assert endless.closed.wait(PATIENCE_SECONDS)


def run_program(program: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, **options
    )


def test_the_interpreter_ends_with_threads_still_at_work():
    program = """
import threading
from monolith.data.prefetch import Background
class Stuck:
    def __iter__(self):
        yield 1
        threading.Event().wait()
blocked_in_put = Background(iter(int, 1), capacity=1)
blocked_in_source = Background(Stuck(), capacity=1)
print(next(blocked_in_put), next(blocked_in_source))
"""
    done = run_program(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1\n", "")


def test_ctrl_c_wakes_whoever_waits():
    program = """
import os, signal, threading
from monolith.data.prefetch import Background
class Stuck:
    def __iter__(self):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()
        yield 1
try:
    with Background(Stuck(), capacity=1) as items:
        next(items)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = run_program(program, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_native_code_in_the_background_uses_one_core():
    before = native.num_threads()
    native.set_num_threads(3)
    try:
        with Background((native.num_threads() for _ in range(2)), capacity=1) as counts:
            assert list(counts) == [1, 1]
        assert native.num_threads() == 3
    finally:
        native.set_num_threads(0)
    assert native.num_threads() == before
