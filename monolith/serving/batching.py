"""Requests that come at the same time are predicted together.

A thread takes all requests that wait, up to a limit, reads them, predicts once, and takes what has come meanwhile. No
request waits for others to come: an idle server answers at once, a busy one in larger batches.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from monolith.export.serving_model import ServingModel
from monolith.parallel.replicas.replicated_tables import ShardAwayError
from monolith.serving.answer import Answer, Inquiry
from monolith.serving.request_body import BodyError

MAX_REQUESTS = 32
"""Of one batch."""

MAX_EXAMPLES = 4096
"""Of one batch, unless a single request has more; `max_batch` may lower it."""

_STOP_SECONDS = 10.0

_T = TypeVar("_T")

Read = Callable[[ServingModel, bytes, int | None], Inquiry]


def with_limit(read: Read, max_batch: int | None) -> Read:
    """Return a reader that refuses requests of more than `max_batch` examples with a BodyError; None has no limit."""
    if max_batch is None:
        return read

    def read_within(model: ServingModel, body: bytes, json_bytes: int | None) -> Inquiry:
        inquiry = read(model, body, json_bytes)
        found = inquiry.question.num_examples
        if found > max_batch:
            raise BodyError(
                413,
                f"the request has {found} examples, {max_batch} at most are taken at a time; send fewer, or start the "
                "server with a larger --max-batch",
            )
        return inquiry

    return read_within


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that nobody has read yet, and who waits for its answer."""

    model: ServingModel
    """The version that answers, also if another one has taken over by the time it is read."""

    read: Read
    body: bytes
    json_bytes: int | None
    future: asyncio.Future[Answer]


class Batches:
    """Threads that answer requests in batches, while the block runs."""

    def __init__(self, num_threads: int = 1, max_batch: int | None = None) -> None:
        """Prepare; more threads than cores to spare would only take turns at the interpreter lock.

        With `max_batch`, requests together have no more examples than one may have.
        """
        self._max_examples = MAX_EXAMPLES if max_batch is None else min(MAX_EXAMPLES, max_batch)
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"predict {number}", daemon=True) for number in range(num_threads)
        ]

    def __enter__(self) -> Self:
        """Start."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Answer what waits, then end."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    async def answer(self, model: ServingModel, read: Read, body: bytes, json_bytes: int | None) -> Answer:
        """Return the answer of a model to one request.

        Raises:
            ValueError: the request is wrong.
            NotFiniteError: a prediction is NaN or infinite.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.put(_Waiting(model, read, body, json_bytes, future))
        return await future

    def _run(self) -> None:
        # A call for each batch: while this thread waits, nothing of the last one, nor a replaced version, is kept.
        while self._answer_next():
            pass

    def _answer_next(self) -> bool:
        """Wait for requests and answer them; return False when it is time to end."""
        first = self._queue.get()
        if first is None:
            return False
        taken = [first]
        while len(taken) < MAX_REQUESTS:
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                break
            if waiting is None:
                # For a thread that ends: this one, after this batch.
                self._queue.put(None)
                break
            taken.append(waiting)
        by_model: dict[int, list[_Waiting]] = {}
        for one in taken:
            by_model.setdefault(id(one.model), []).append(one)
        for some in by_model.values():
            first.future.get_loop().call_soon_threadsafe(_settle, some, _answers(some, self._max_examples))
        return True


def _answers(taken: Sequence[_Waiting], max_examples: int) -> list[Answer | Exception]:
    """Return an answer or an error for each request of one model; the error of one is not that of the others."""
    model = taken[0].model
    requests = [_outcome(partial(one.read, model, one.body, one.json_bytes)) for one in taken]
    outcomes: list[Answer | Exception] = []
    together: list[Inquiry] = []
    num_examples = 0
    for request in requests:
        if isinstance(request, Exception):
            continue
        if together and num_examples + request.question.num_examples > max_examples:
            outcomes += _predicted(model, together)
            together, num_examples = [], 0
        together.append(request)
        num_examples += request.question.num_examples
    outcomes += _predicted(model, together)
    answered = iter(outcomes)
    return [one if isinstance(one, Exception) else next(answered) for one in requests]


def _predicted(model: ServingModel, requests: Sequence[Inquiry]) -> list[Answer | Exception]:
    if not requests:
        return []
    found = _outcome(lambda: model.predict_together([one.question for one in requests]))
    if isinstance(found, ShardAwayError):
        # It would be that of each: nobody waits for the shard once more.
        return [found for _ in requests]
    if isinstance(found, Exception):
        # One by one, to know whose it is.
        return [found] if len(requests) == 1 else [_predicted(model, [one])[0] for one in requests]
    away = model.shards_away
    answers = [_outcome(partial(one.answer, outputs)) for one, outputs in zip(requests, found, strict=True)]
    if away:
        return [one if isinstance(one, Exception) else replace(one, shards_away=away) for one in answers]
    return list(answers)


def _outcome(work: Callable[[], _T]) -> _T | Exception:
    try:
        return work()
    except Exception as error:  # noqa: BLE001  raised again where the request came from
        return error


def _settle(taken: Sequence[_Waiting], outcomes: Sequence[Answer | Exception]) -> None:
    for waiting, outcome in zip(taken, outcomes, strict=True):
        if waiting.future.done():
            continue  # its client has gone
        if isinstance(outcome, Exception):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)
