"""Queues of nested structures of tensors, threads and hooks that fill them, and functions that run one step later.

What was a graph of tensors in the original, giving new values at every run, is here a callable that returns a nested
structure. Running the enqueue op is `queue.enqueue()`; the dequeued tensors are a callable again. One queue holds
tensors of every device, so the original's pairs of CPU and GPU queues are gone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any

from monolith.data.prefetch.background import BackgroundThread
from monolith.data.prefetch.bounded_queue import BoundedQueue, QueueClosedError
from monolith.data.prefetch.gpu_prefetch import map_tensors
from monolith.hooks import Hook, RunContext, StepValues

Produce = Callable[[], Any]
"""Returns a new nested structure at every call; StopIteration ends the data."""

Ops = Callable[[], object]
"""Takes one value from a queue and works on it; a Future that it returns is work that goes on meanwhile."""

_POLL_SECONDS = 0.1


class PrefetchQueue:
    """A bounded queue of nested structures, and the callable that they come from.

    >>> numbers = iter(range(3))
    >>> queue = PrefetchQueue(lambda: {"n": next(numbers)}, capacity=2)
    >>> queue.enqueue(); queue.enqueue()
    >>> queue.dequeue(), queue.size()
    ({'n': 0}, 1)
    """

    def __init__(self, produce: Produce, capacity: int = 2, name: str = "prefetch_queue") -> None:
        self.name = name
        self._produce = produce
        self._queue: BoundedQueue[Any] = BoundedQueue(capacity)

    def enqueue(self) -> None:
        """Run the callable once and put what it returns; waits while the queue is full."""
        self.put(self._produce())

    def put(self, structure: Any) -> None:
        """Put a structure; its containers are copied, its tensors are not. A closed queue is a `QueueClosedError`.

        Containers are dicts, lists, tuples and dataclasses such as `Batch`; all else is passed on as it is.
        """
        self._queue.put(map_tensors(structure, lambda tensor: tensor))

    def dequeue(self) -> Any:
        """Take the oldest structure; waits while there is none.

        Raises:
            QueueClosedError: The data has ended and everything was taken.
        """
        return self._queue.get()

    def __iter__(self) -> Iterator[Any]:
        """Yield structures until the data has ended."""
        yield from self._queue

    def size(self) -> int:
        """Return the number of structures that wait."""
        return self._queue.size()

    def is_full(self) -> bool:
        """Return whether a `put` would have to wait."""
        return self._queue.size() >= self._queue.capacity

    def close(self, error: BaseException | None = None) -> None:
        """Accept no more items; the remaining ones can still be taken, then taking raises `error`."""
        self._queue.close(error)

    def cancel(self) -> None:
        """Close at once, drop all items, and wake every waiting thread."""
        self._queue.cancel()

    def reopen(self) -> None:
        """Begin anew, empty, if the queue was closed; nobody may be putting into it or taking from it."""
        if self.closed:
            self._queue = BoundedQueue(self._queue.capacity)

    @property
    def closed(self) -> bool:
        """Nothing can be put any more."""
        return self._queue.closed

    @property
    def queues(self) -> list["PrefetchQueue"]:
        """This queue, as `MultiQueueRunner` takes it."""
        return [self]


class MultiQueueRunner:
    """Threads that run enqueue callables until their data ends, for one queue or several that are filled together.

    When the last of them has ended, the queues are closed; when one raises, the queues are closed with its exception,
    which the consumer gets after the structures before it.

    Args:
        queue: A queue, or several.
        enqueue_ops: One thread each.
    """

    def __init__(
        self, queue: PrefetchQueue | Sequence[PrefetchQueue], enqueue_ops: Sequence[Callable[[], object]]
    ) -> None:
        self._queues = [queue] if isinstance(queue, PrefetchQueue) else list(queue)
        if not self._queues or not enqueue_ops:
            raise ValueError(f"queues and enqueue_ops are needed, got {len(self._queues)} and {len(enqueue_ops)}")
        self._enqueue_ops = list(enqueue_ops)
        self._unfinished = len(self._enqueue_ops)
        self._lock = Lock()
        self._threads: list[BackgroundThread] = []

    @property
    def queue(self) -> PrefetchQueue:
        """The queue; NotImplementedError if there are several."""
        if len(self._queues) > 1:
            raise NotImplementedError(f"this runner has {len(self._queues)} queues, not one")
        return self._queues[0]

    @property
    def name(self) -> str:
        """The name of the first queue."""
        return self._queues[0].name

    def create_threads(self) -> list[BackgroundThread]:
        """Start the threads, once, and return them."""
        if not self._threads:
            self._threads = [
                BackgroundThread(partial(self._run, op), stop=self.cancel, name=f"{self.name}-{number}")
                for number, op in enumerate(self._enqueue_ops)
            ]
        return self._threads

    def cancel(self) -> None:
        """End the threads and drop what is in the queues; does not wait."""
        for queue in self._queues:
            queue.cancel()

    def _run(self, op: Callable[[], object]) -> None:
        error: BaseException | None = None
        try:
            while True:
                op()
        except StopIteration:
            pass
        except QueueClosedError as closed:
            # An end if it was one of ours; any other queue that was closed is an error like others.
            error = None if any(queue.closed for queue in self._queues) else closed
        except BaseException as raised:  # noqa: BLE001 - it is raised where the structures are taken
            error = raised
        with self._lock:
            self._unfinished -= 1
            is_last = self._unfinished == 0
        if error is not None or is_last:
            for queue in self._queues:
                queue.close(error)


class EnqueueHook(Hook):
    """Fills a queue in the background from the moment a run has its model until it ends, in one run after the other."""

    def __init__(self, q: PrefetchQueue) -> None:
        """Take the queue, as `enqueue_dicts_with_queue_return` returns it."""
        self._queue = q
        self._threads: list[BackgroundThread] = []

    def after_create_session(self, context: RunContext) -> None:
        """Start the thread; that of the run before, if it is still in the callable, is waited for."""
        while not all(thread.join(_POLL_SECONDS) for thread in self._threads):
            if context.stop_requested:
                return
        self._queue.reopen()
        self._threads = MultiQueueRunner(self._queue.queues, [self._queue.enqueue]).create_threads()

    def end(self, context: RunContext) -> None:
        """End the thread and drop what it made ahead."""
        self._queue.cancel()


def enqueue_dicts_with_queue_return(
    tensors: Any, capacity: int = 1, queue_name: str = "prefetch_queue"
) -> tuple[Any, PrefetchQueue | None]:
    """Return a callable that takes the next structure from a new queue, and the queue.

    Somebody must fill the queue: `EnqueueHook(queue)` in the background, or calls of `queue.enqueue()`.

    >>> numbers = iter(range(20))
    >>> dequeued, queue = enqueue_dicts_with_queue_return(lambda: {"n": next(numbers)}, capacity=3)
    >>> queue.enqueue()
    >>> dequeued()
    {'n': 0}

    Args:
        tensors: A callable that returns a nested structure, a new one each time; a structure given as it is stands
            for a callable that always returns it.
        capacity: Structures that wait at most. 0 means no queue: `tensors` itself comes back, and None.
        queue_name: Names the threads.
    """
    if capacity == 0:
        return tensors, None
    produce = tensors if callable(tensors) else lambda: tensors
    queue = PrefetchQueue(produce, capacity, queue_name)
    return queue.dequeue, queue


class AsyncPushHook(Hook):
    """Runs `ops` once per step, beside the step, as soon as a step has left something in the queue.

    Work that began before a step has ended after it. When the run ends, what is left in the queue is worked on too,
    unless the run ends with an error.
    """

    def __init__(self, queue: PrefetchQueue, ops: Ops) -> None:
        """Take the queue, and the callable that takes from it."""
        self._queue = queue
        self._ops = ops
        self._queue_init = False
        self._pending: object = None

    def begin(self) -> None:
        """Forget earlier runs."""
        self._queue_init = self._queue.size() > 0

    def before_run(self, context: RunContext) -> None:
        """Begin with the oldest value, once there is one."""
        if self._queue_init and self._queue.size() > 0:
            self._pending = self._ops()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Wait for what was begun; an exception of it is raised here."""
        self._wait()
        self._queue_init = self._queue_init or self._queue.size() > 0

    def end(self, context: RunContext) -> None:
        """Work on everything that is left."""
        self._wait()
        while self._queue.size() > 0:
            if context.error is not None:
                self._queue.dequeue()  # else the next run would begin with what this one left
                continue
            self._pending = self._ops()
            self._wait()

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if isinstance(pending, Future):
            pending.result()


class AsyncFunctionMgr:
    """Makes functions asynchronous: calls are queued, and run one step later by the hooks, which a run must have.

    >>> seen = []
    >>> functions = AsyncFunctionMgr(is_async=False)
    >>> push = functions.add_async_function(seen.append)
    >>> push(5)
    >>> seen
    [5]

    Args:
        is_async: What holds for functions that do not say otherwise.
    """

    def __init__(self, is_async: bool = True) -> None:
        self._is_async = is_async
        self._hooks: list[Hook] = []

    @property
    def hooks(self) -> list[Hook]:
        """The hooks that run the queued calls: one per asynchronous function."""
        return list(self._hooks)

    def add_async_function(
        self,
        target: Callable[..., object],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        is_async: bool | None = None,
        queue_name: str = "async_queue",
    ) -> Callable[..., None]:
        """Return the function to call in each step in place of `target`.

        What it is called with comes behind `args` and over `kwargs`. Asynchronous, it queues these arguments and
        returns; tensors are not copied, so they must not be changed in place afterwards. If the queue is full, since
        it is called twice in a step or without the hooks, the oldest call runs first: none is lost, none waits for
        ever.

        Args:
            target: The function.
            args: Its first arguments.
            kwargs: Its keyword arguments.
            is_async: Whether calls are queued; if None, what the constructor was given.
            queue_name: Names the thread.
        """
        fixed, named = tuple(args or ()), dict(kwargs or {})
        if not (self._is_async if is_async is None else is_async):

            def run_now(*more: Any, **others: Any) -> None:
                target(*fixed, *more, **{**named, **others})

            return run_now
        delayed = _DelayedFunction(target, queue_name)
        self._hooks.append(AsyncPushHook(delayed.queue, delayed.run_oldest))

        def enqueue(*more: Any, **others: Any) -> None:
            delayed.put((*fixed, *more), {**named, **others})

        return enqueue


class _DelayedFunction:
    """A function, the queue of its calls, and one thread that runs them in their order."""

    def __init__(self, target: Callable[..., object], queue_name: str) -> None:
        self._target = target
        self._name = queue_name
        self._executor: ThreadPoolExecutor | None = None
        dequeue, queue = enqueue_dicts_with_queue_return(lambda: None, queue_name=queue_name)
        assert queue is not None
        self._dequeue, self.queue = dequeue, queue

    def put(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.queue.is_full():
            self.run_oldest().result()
        self.queue.put((args, kwargs))

    def run_oldest(self) -> Future[object]:
        args, kwargs = self._dequeue()
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._name)
        return self._executor.submit(self._target, *args, **kwargs)
