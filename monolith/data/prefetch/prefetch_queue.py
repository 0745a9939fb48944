"""Queues that hold nested structures of tensors, and the threads and hooks that fill them.

What was a graph of tensors in the original, giving new values at every run, is here a callable that returns a nested
structure. Running the enqueue op is `queue.enqueue()`; the dequeued tensors are a callable again. One queue holds
tensors of every device, so the original's pairs of CPU and GPU queues are gone.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any

from monolith.data.prefetch.background import BackgroundThread
from monolith.data.prefetch.bounded_queue import BoundedQueue, QueueClosedError
from monolith.data.prefetch.gpu_prefetch import map_tensors
from monolith.hooks import Hook, RunContext

Produce = Callable[[], Any]
"""Returns a new nested structure at every call; StopIteration ends the data."""

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
