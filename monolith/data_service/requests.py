"""What the processes of a data service ask of each other; the content of every request and reply is JSON and arrays.

A trainer holds splits; for each it knows the position it has reached itself. Workers hold nothing that matters: any of
them can go on with any split at any position. The dispatcher knows who holds which split, and from where on.
"""

from enum import IntEnum
from typing import Any

from monolith.wire import Message


class ServiceRequest(IntEnum):
    """Type of a message; those below 620 go to the dispatcher, the others to a data worker."""

    DESCRIBE = 600
    """-> input, num_splits, schema (None before the first worker), lease_seconds."""

    REGISTER = 601
    """From a worker, again and again: address, schema, num_streams, leave -> over: whether the service ends."""

    JOIN = 602
    """From a trainer that starts: trainer, life, holding -> as DESCRIBE, and round, lost."""

    TAKE = 603
    """trainer, life, round, known, parts, wait_seconds -> what: split | wait | complete; split, state, num_batches."""

    REPORT = 604
    """trainer, life, holding, leave -> lost."""

    LOCATE = 605
    """trainer, round, split, failed -> worker: an address, or None if no worker is alive."""

    STATUS = 606
    """-> everything, for people."""

    END = 607
    """From the chief of the job that the service belongs to -> {}; workers learn it from REGISTER."""

    HAND_OVER = 608
    """From the first of another number of trainers: family, trainers, tables, token -> {}."""

    OPEN = 620
    """trainer, round, split, num_splits, state -> stream."""

    PULL = 621
    """stream, wait_seconds -> batches (with their arrays), end; or gone, if there is no such stream."""

    CLOSE = 622
    """stream -> {}."""


def ask(request: ServiceRequest, **content: Any) -> Message:
    """Return a request with this content."""
    return Message(type=request, meta=content)


def answer(request: Message, **content: Any) -> Message:
    """Return the reply to a request."""
    return Message(type=request.type, meta=content)
