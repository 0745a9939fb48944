"""Queues of nested structures, the hooks that fill them, and functions that run a step later."""

import threading

import pytest
import torch
from torch import nn

from monolith.data import Batch
from monolith.data.prefetch import QueueClosedError
from monolith.hooks import RunContext, StepValues
from monolith.native_training.prefetch_queue import (
    AsyncFunctionMgr,
    AsyncPushHook,
    EnqueueHook,
    MultiQueueRunner,
    PrefetchQueue,
    enqueue_dicts_with_queue_return,
)
from monolith.tensors import Ragged
from tests.patience import PATIENCE_SECONDS


class Run:
    """What a training loop does with hooks, step by step."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.context = RunContext(model=nn.Module(), tables=None)
        for hook in hooks:
            hook.begin()
        for hook in hooks:
            hook.after_create_session(self.context)

    def step(self, work):
        for hook in self.hooks:
            hook.before_run(self.context)
        result = work()
        values = StepValues(step=0, loss=0.0, num_events=1, partition="0", first=0, last=1)
        for hook in self.hooks:
            hook.after_run(self.context, values)
        return result

    def end(self, error=None):
        self.context.error = error
        for hook in self.hooks:
            hook.end(self.context)


class Counter:
    def __init__(self):
        self.value = 0

    def add(self, amount=1):
        self.value += int(amount)


def test_dense_and_ragged_tensors_go_through_a_queue():
    queue = PrefetchQueue(lambda: {"dense": torch.tensor([1, 2]), "ragged": Ragged.from_lists([[], [3], [4, 5]])})
    queue.enqueue()
    result = queue.dequeue()
    assert result["dense"].tolist() == [1, 2]
    assert result["ragged"].to_list() == [[], [3], [4, 5]]


def test_capacity_four():
    numbers = iter(range(4))
    queue = PrefetchQueue(lambda: torch.tensor(next(numbers)), capacity=4)
    for _ in range(4):
        queue.enqueue()
    assert (queue.size(), queue.is_full()) == (4, True)
    assert [queue.dequeue().item() for _ in range(4)] == [0, 1, 2, 3]


def test_several_values_at_once_keep_their_types():
    values = iter([(1, 1.5), (2, 2.5)])
    queue = PrefetchQueue(lambda: tuple(torch.tensor(value) for value in next(values)))
    queue.enqueue()
    queue.enqueue()
    first, second = queue.dequeue(), queue.dequeue()
    assert [value.item() for value in first + second] == [1, 1.5, 2, 2.5]
    assert first[0].dtype == torch.int64 and first[1].dtype == torch.float32


def test_dicts_over_several_rounds():
    numbers = iter(range(100))

    def produce():
        number = next(numbers)
        return {"dense": {"x": torch.full((2,), number)}, "ragged": {"y": Ragged.from_lists([[number], []])}}

    dequeued, queue = enqueue_dicts_with_queue_return(produce, capacity=3)
    for round_ in range(3):
        for _ in range(3):
            queue.enqueue()
        for place in range(3):
            result = dequeued()
            assert result["dense"]["x"].tolist() == [3 * round_ + place] * 2
            assert result["ragged"]["y"].to_list() == [[3 * round_ + place], []]


def test_strings_and_none_are_preserved():
    given = {"a": torch.tensor(1), "b": {"text": "str", "none": None, "c": [torch.tensor(2), True]}}
    dequeued, queue = enqueue_dicts_with_queue_return(given)
    queue.enqueue()
    result = dequeued()
    assert (result["b"]["text"], result["b"]["none"], result["b"]["c"][1]) == ("str", None, True)
    assert (result["a"].item(), result["b"]["c"][0].item()) == (1, 2)


def test_what_the_callable_does_happens_when_it_is_enqueued():
    counter = Counter()

    def produce():
        counter.add()
        return {"value": torch.tensor(counter.value)}

    dequeued, queue = enqueue_dicts_with_queue_return(produce)
    assert counter.value == 0
    queue.enqueue()
    assert counter.value == 1
    assert dequeued()["value"].item() == 1
    assert counter.value == 1


def test_capacity_zero_returns_the_same():
    tensors = {"a": torch.tensor(1)}
    assert enqueue_dicts_with_queue_return(tensors, capacity=0) == (tensors, None)
    assert enqueue_dicts_with_queue_return(tensors, capacity=0)[0] is tensors


def test_changes_of_the_producers_containers_do_not_reach_the_queue():
    shared = {"n": 0}
    queue = PrefetchQueue(lambda: shared)
    queue.enqueue()
    shared["n"] = 1
    queue.enqueue()
    assert [queue.dequeue()["n"], queue.dequeue()["n"]] == [0, 1]


def test_an_iterator_is_prefetched_by_the_hook():
    numbers = iter(range(20))
    dequeued, queue = enqueue_dicts_with_queue_return(lambda: {"pred": torch.tensor(next(numbers))}, capacity=3)
    run = Run([EnqueueHook(queue)])
    assert [run.step(dequeued)["pred"].item() for _ in range(20)] == list(range(20))
    with pytest.raises(QueueClosedError):
        run.step(dequeued)
    run.end()
    assert list(queue) == []


def test_the_hook_fills_the_queue_in_every_run():
    numbers, in_callable, go_on = iter(range(100)), threading.Event(), threading.Event()

    def produce():
        number = next(numbers)
        if number == 5:
            in_callable.set()
            assert go_on.wait(PATIENCE_SECONDS)
        return number

    dequeued, queue = enqueue_dicts_with_queue_return(produce, capacity=2)
    hook = EnqueueHook(queue)
    first = Run([hook])
    assert [first.step(dequeued) for _ in range(3)] == [0, 1, 2]
    assert in_callable.wait(PATIENCE_SECONDS)
    first.end()
    go_on.set()
    second = Run([hook])  # waits for the thread of the first, and what that made ahead is dropped
    assert [second.step(dequeued) for _ in range(3)] == [6, 7, 8]
    second.end()


def test_a_run_that_is_stopped_does_not_wait_for_the_thread_of_another():
    in_callable, go_on = threading.Event(), threading.Event()

    def produce():
        in_callable.set()
        assert go_on.wait(PATIENCE_SECONDS)

    hook = EnqueueHook(PrefetchQueue(produce))
    Run([hook]).end()
    assert in_callable.wait(PATIENCE_SECONDS)
    stopped = RunContext(model=None, tables=None)
    stopped.request_stop()
    hook.after_create_session(stopped)
    go_on.set()


def test_batches_go_through_a_queue():
    ragged = Ragged.from_lists([[1], []])
    batch = Batch({"uid": torch.tensor([7, 8]), "tags": ragged}, first=10, last=12, partition="clicks/0")
    dequeued, queue = enqueue_dicts_with_queue_return(lambda: {"batch": batch, "weight": 0.5})
    queue.enqueue()
    result = dequeued()
    assert (result["batch"].name, result["weight"]) == ("clicks/0[10, 12)", 0.5)
    assert result["batch"].columns["uid"] is batch.columns["uid"]
    assert result["batch"].columns["tags"].to_list() == [[1], []]


def test_the_queue_can_be_iterated():
    numbers = iter(range(20))
    queue = PrefetchQueue(lambda: next(numbers), capacity=2)
    MultiQueueRunner(queue, [queue.enqueue]).create_threads()
    assert list(queue) == list(range(20))


def test_the_end_of_a_run_ends_a_thread_that_waits():
    queue = PrefetchQueue(lambda: 1, capacity=1)
    runner = MultiQueueRunner([queue], [queue.enqueue])
    (thread,) = runner.create_threads()
    assert queue.dequeue() == 1
    assert runner.create_threads() == [thread]
    runner.cancel()
    assert thread.join(PATIENCE_SECONDS)


def test_an_error_of_the_producer_reaches_the_consumer():
    values = iter([lambda: 1, lambda: 1 // 0])
    queue = PrefetchQueue(lambda: next(values)())
    MultiQueueRunner(queue, [queue.enqueue]).create_threads()
    assert queue.dequeue() == 1
    with pytest.raises(ZeroDivisionError):
        queue.dequeue()


def test_several_queues_are_filled_together():
    numbers = iter(range(5))
    first, second = PrefetchQueue(lambda: None, 10, "first"), PrefetchQueue(lambda: None, 10, "second")

    def enqueue_both():
        number = next(numbers)
        first.put(number)
        second.put(-number)

    runner = MultiQueueRunner([first, second], [enqueue_both])
    assert runner.name == "first"
    with pytest.raises(NotImplementedError, match="2 queues"):
        _ = runner.queue
    assert MultiQueueRunner(first, [first.enqueue]).queue is first
    runner.create_threads()
    assert list(first) == [0, 1, 2, 3, 4]
    assert list(second) == [0, -1, -2, -3, -4]


def test_several_threads_fill_one_queue_until_the_last_has_ended():
    numbers, lock = iter(range(50)), threading.Lock()

    def produce():
        with lock:
            return next(numbers)

    queue = PrefetchQueue(produce, capacity=2)
    MultiQueueRunner(queue, [queue.enqueue] * 3).create_threads()
    assert sorted(queue) == list(range(50))


def test_a_runner_needs_work():
    with pytest.raises(ValueError, match="queues and enqueue_ops are needed"):
        MultiQueueRunner([], [])


def test_async_add_is_one_after_two_runs():
    counter, functions = Counter(), AsyncFunctionMgr(is_async=True)
    enqueue = functions.add_async_function(counter.add, (torch.tensor(1),))
    run = Run(functions.hooks)
    run.step(enqueue)
    assert counter.value == 0
    run.step(enqueue)
    assert counter.value == 1
    run.end()
    assert counter.value == 2


@pytest.mark.parametrize("function_says", [None, False])
def test_sync_add_is_one_after_one_run(function_says):
    counter = Counter()
    functions = AsyncFunctionMgr(is_async=function_says is False)
    enqueue = functions.add_async_function(counter.add, (torch.tensor(1),), is_async=function_says)
    assert functions.hooks == []
    enqueue()
    assert counter.value == 1


def test_empty_input_is_one_after_two_runs():
    counter, functions = Counter(), AsyncFunctionMgr()
    enqueue = functions.add_async_function(counter.add)
    run = Run(functions.hooks)
    run.step(enqueue)
    run.step(enqueue)
    assert counter.value == 1


def test_arguments_of_each_call_arrive_in_order_one_step_later():
    seen, functions = [], AsyncFunctionMgr()
    push = functions.add_async_function(
        lambda table, rows, *, scale, step: seen.append((table, rows.item(), scale, step)),
        args=("table",),
        kwargs={"scale": 2, "step": 0},
    )
    run = Run(functions.hooks)
    for step in range(4):
        run.step(lambda step=step: push(torch.tensor(step * 10), step=step))
        assert len(seen) == step
    run.end()
    assert seen == [("table", step * 10, 2, step) for step in range(4)]


def test_the_function_runs_beside_the_step():
    begun, functions = threading.Event(), AsyncFunctionMgr()
    push = functions.add_async_function(begun.set)
    run = Run(functions.hooks)
    run.step(push)
    assert run.step(lambda: begun.wait(PATIENCE_SECONDS)), "the step waited for the function"


def test_without_hooks_nothing_hangs_and_nothing_is_lost():
    seen, functions = [], AsyncFunctionMgr()
    push = functions.add_async_function(seen.append)
    for number in range(3):
        push(number)
    assert seen == [0, 1]
    Run(functions.hooks).end()
    assert seen == [0, 1, 2]


def test_an_error_of_the_function_is_raised_after_the_step():
    def fail():
        raise OSError("connection lost")

    functions = AsyncFunctionMgr()
    push = functions.add_async_function(fail)
    run = Run(functions.hooks)
    run.step(push)
    with pytest.raises(OSError, match="connection lost"):
        run.step(lambda: None)


def test_a_run_that_failed_drops_what_waits():
    counter, functions = Counter(), AsyncFunctionMgr()
    push = functions.add_async_function(counter.add)
    run = Run(functions.hooks)
    run.step(push)
    run.end(error=RuntimeError("stop"))
    again = Run(functions.hooks)
    again.step(lambda: None)
    again.end()
    assert counter.value == 0


def test_push_hook_runs_only_what_is_there():
    calls = []
    queue = PrefetchQueue(lambda: 1)
    run = Run([AsyncPushHook(queue, lambda: calls.append(queue.dequeue()))])
    run.step(lambda: None)
    assert calls == []
    run.step(queue.enqueue)
    run.step(lambda: None)
    run.step(lambda: None)
    assert calls == [1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: queues of GPU tensors are not tested")
def test_tensors_of_both_devices_share_a_queue():
    numbers = iter([1.0, 2.0, 3.0])

    def produce():
        number = next(numbers)
        return {"gpu": torch.tensor(number, device="cuda"), "cpu": torch.tensor(number)}

    queue = PrefetchQueue(produce, capacity=3)
    MultiQueueRunner(queue, [queue.enqueue]).create_threads()
    results = list(queue)
    assert all(result["gpu"].is_cuda and not result["cpu"].is_cuda for result in results)
    assert sum((result["gpu"] * 2 for result in results), torch.zeros((), device="cuda")).item() == 12.0
