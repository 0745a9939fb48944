"""Functions that run one step later than they are called, beside the next step."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from monolith.data.prefetch.prefetch_queue import PrefetchQueue, enqueue_dicts_with_queue_return
from monolith.hooks import Hook, RunContext, StepValues

Ops = Callable[[], object]
"""Takes one value from a queue and works on it; a Future that it returns is work that goes on meanwhile."""


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
