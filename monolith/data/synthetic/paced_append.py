"""append_forever: a stream that goes on by the clock, from events that can be made at any offset."""

import os
import threading
import time
from typing import Any, Protocol

import numpy as np

from monolith.data.event_log import EventLogWriter
from monolith.data.schema import Schema

_TICK_SECONDS = 0.02
_SYNC_SECONDS = 1.0
_CHUNK = 65_536


class EventMaker(Protocol):
    """Events that are the same at every reading, such as `MovieEvents`."""

    schema: Schema
    """Columns of the events."""

    def events(self, first: int, count: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return events `first` to `first + count - 1`, one array per column."""
        ...


def append_forever(
    log_path: str | os.PathLike[str],
    events: EventMaker,
    *,
    rate_per_second: float,
    stop: threading.Event,
    limit: int | None = None,
) -> int:
    """Append events to a log at a steady rate until `stop` is set; return the length of the log.

    Goes on where the log ends: the event at an offset is the same whether or not the process was restarted in between.
    Readers see events within about 20 ms, the disk has them within about a second. If the machine cannot keep up, the
    rate is lower; what was missed is not made good in a burst.

    Args:
        log_path: Folder of the log; made if it is not there.
        events: Where the events come from.
        rate_per_second: Events to append per second of wall clock.
        stop: Ends the function, at once if it waits.
        limit: Also end once the log has this many events.
    """
    if not rate_per_second > 0:
        raise ValueError(f"rate_per_second must be positive, got {rate_per_second}")
    with EventLogWriter(log_path, events.schema) as writer:
        base, began = writer.offset, time.monotonic()
        synced = began
        while not stop.is_set() and (limit is None or writer.offset < limit):
            now = time.monotonic()
            due = base + int((now - began) * rate_per_second) - writer.offset
            if due > max(rate_per_second, _CHUNK):
                base, began = writer.offset, now  # more than a second late: forget the debt
                continue
            count = min(due, _CHUNK if limit is None else min(_CHUNK, limit - writer.offset))
            if count > 0:
                writer.append(events.events(writer.offset, count))
                writer.flush()
            if now - synced > _SYNC_SECONDS:
                writer.sync()
                synced = now
            if count < _CHUNK:
                stop.wait(_TICK_SECONDS)
        return writer.offset
