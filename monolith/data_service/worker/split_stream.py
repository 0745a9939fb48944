"""SplitStream: one split, read ahead by a thread of its own."""

import threading
import time
from collections.abc import Callable

from monolith.data.source import Source, State
from monolith.data_service.batch_message import PackedBatch, PlacedBatch, pack_batch
from monolith.data_service.handoff import Handoff


class SplitStream:
    """The batches of a source from a position on, with a limited number read ahead."""

    def __init__(self, open_source: Callable[[], Source], state: State | None, *, prefetch_batches: int) -> None:
        """Begin to read; what goes wrong with the source is raised by `take`."""
        self._open_source = open_source
        self._state = state
        self._ready = Handoff[PackedBatch | BaseException | _End](prefetch_batches)
        self._left_over: BaseException | None = None
        self._ended = False
        self.asked_at = time.monotonic()
        """When somebody last wanted something of it."""
        self._thread = threading.Thread(target=self._read, name="split stream", daemon=True)
        self._thread.start()

    def take(self, max_bytes: int, wait_seconds: float) -> tuple[list[PackedBatch], bool]:
        """Return the next batches, and whether they are the last; none if there is none yet.

        More than one comes only if it is there already, and while all together have at most `max_bytes`.
        """
        self.asked_at = time.monotonic()
        batches: list[PackedBatch] = []
        while not self._ended:
            item = self._next(0.0 if batches else wait_seconds)
            if isinstance(item, BaseException):
                if batches:
                    self._left_over = item
                    break
                raise item
            if item is None:
                break
            batches.append(item)
            max_bytes -= item.nbytes
            # The next one is likely to be as large.
            if max_bytes < item.nbytes:
                break
        return batches, self._ended

    def close(self) -> None:
        """Stop reading, at the latest with the batch that is being read."""
        self._ready.close()

    def _next(self, wait_seconds: float) -> PackedBatch | BaseException | None:
        if self._left_over is not None:
            left_over, self._left_over = self._left_over, None
            return left_over
        item = self._ready.get(wait_seconds)
        if isinstance(item, _End):
            self._ended = True
            return None
        return item

    def _read(self) -> None:
        try:
            source = self._open_source()
            if self._state is not None:
                source.restore(self._state)
            for batch in source:
                if not self._ready.put(pack_batch(PlacedBatch(batch, source.state()))):
                    return
            self._ready.put(_End())
        except BaseException as error:  # noqa: BLE001  whatever a source raises is for the one who reads it
            self._ready.put(error)


class _End:
    """No more batches."""
