"""Prefetched: a source whose batches are made ahead, in the background, with the position kept exact."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from monolith.closing import Closing
from monolith.data.batch import Batch
from monolith.data.parts import redivide
from monolith.data.parts.every_nth import split
from monolith.data.prefetch.background import Background
from monolith.data.prefetch.gpu_prefetch import DeviceCopier, InFlight
from monolith.data.progress import share_read
from monolith.data.schema import Schema
from monolith.data.source import Source, State

_Made = tuple[InFlight[Batch] | None, State]
"""A batch with the position behind it; no batch marks the end of the data."""


class Prefetched(Closing):
    """The batches of a source, made up to `capacity` ahead by a background thread; a source itself.

    `state` is the position behind the batch that was taken last, however far the thread is ahead. The source must not
    be used otherwise meanwhile. For use by one thread, apart from `close`.

    Args:
        source: What the batches come from.
        capacity: Batches made ahead; 0 turns the thread off and passes everything through.
        device: Where the tensors of the batches go, copied ahead as well.
        stop_timeout_seconds: How long `restore` and `close` wait for the thread to come back from the source.
    """

    def __init__(
        self,
        source: Source,
        capacity: int = 2,
        *,
        device: torch.device | str | None = None,
        stop_timeout_seconds: float = 60.0,
    ) -> None:
        if capacity < 0:
            raise ValueError(f"capacity must be 0 (off) or the number of batches to make ahead, got {capacity}")
        self._source = source
        self._capacity = capacity
        self._device = device
        self._copier = DeviceCopier(device)
        self._stop_timeout_seconds = stop_timeout_seconds
        self._worker: Background[_Made] | None = None
        self._state = copy.deepcopy(source.state())

    @property
    def schema(self) -> Schema:
        """The columns of every batch."""
        return self._source.schema

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on; what the source raises is raised after the batches before it."""
        if self._capacity == 0:
            for batch in self._source:
                yield self._copier.send(batch).receive()
            return
        while True:
            worker = self._running_worker()
            try:
                made, state = next(worker)
            except StopIteration:
                if self._worker is None or self._worker is worker:
                    return  # closed meanwhile
                continue
            self._state = state
            if made is None:
                self._worker = None
                return
            yield made.receive()

    def share_read(self) -> float | None:
        """Return how much of the data was read; None where nobody knows."""
        return share_read(self._source)

    def state(self) -> State:
        """Return the position behind the batch taken last."""
        return self._source.state() if self._capacity == 0 else copy.deepcopy(self._state)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position of the source; what was made ahead is dropped, and making ahead goes on from there.

        Raises:
            ValueError: It is no position of this source; then nothing has changed.
            RuntimeError: The source did not give back control in time.
        """
        was_running = self._worker is not None
        self._stop()
        try:
            self._source.restore(state)
        except BaseException:
            self._source.restore(self._state)
            raise
        self._state = copy.deepcopy(self._source.state())
        if was_running:
            self._running_worker()

    def shard(self, num_shards: int, index: int) -> "Prefetched":
        """Return a part of the source, prefetched in the same way."""
        return self._over(self._source.shard(num_shards, index))

    def split(self, count: int, index: int) -> "Prefetched":
        """Return a piece of the rest of the source, prefetched in the same way; nothing may be made ahead yet."""
        return self._over(split(self._source, count, index))

    def redivide(self, positions: Sequence[State | None], num_workers: int) -> list[State | None]:
        """Give out the source before it anew."""
        return redivide(self._source, positions, num_workers)

    def close(self) -> None:
        """End the thread; the source then stands where this one does. Iterating again starts a new thread."""
        self._stop()

    def _over(self, source: Source) -> "Prefetched":
        return Prefetched(source, self._capacity, device=self._device, stop_timeout_seconds=self._stop_timeout_seconds)

    def _running_worker(self) -> Background[_Made]:
        if self._worker is not None and self._worker.finished:
            self._stop()  # it ended with an error, which was raised
        if self._worker is None:
            made = _make(self._source, self._copier)
            self._worker = Background(made, capacity=self._capacity, name="monolith-prefetch")
        return self._worker

    def _stop(self) -> None:
        """End the thread, and bring the source back to where the consumer is."""
        worker = self._worker
        if worker is None:
            return
        worker.close()
        if not worker.join(self._stop_timeout_seconds):
            raise RuntimeError(
                f"{type(self._source).__name__} did not give back control within {self._stop_timeout_seconds} s; "
                f"end its waiting first (a source that follows its growth has a stop event)"
            )
        self._worker = None
        self._source.restore(self._state)


def _make(source: Source, copier: DeviceCopier) -> Iterator[_Made]:
    """Yield each batch with the position behind it, and last the position at the end.

    A copy, since the source goes on while the position waits in the queue.
    """
    for batch in source:
        yield copier.send(batch), copy.deepcopy(source.state())
    yield None, copy.deepcopy(source.state())
