"""The peer's end of the pipe: JSON lines in on standard input, JSON lines out on a descriptor of their own.

    {"setup": {...}}                         -> {"operations": ["lookup", ...]}
    {"round": seed, "operation": "lookup"}   -> {"seconds": 0.012, "checksum": 3735928559}

A failure is {"error": "..."}. Replies have their own descriptor (the last argument) because libraries print what
they like to standard output. Needs the standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO, TypeAlias

Operation: TypeAlias = Callable[[int], tuple[float, int]]
"""Seed to (seconds of the work alone, checksum of the ids)."""

Setup: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Operation]]


def serve(setup: Setup) -> None:
    """Answer requests until standard input ends."""
    with os.fdopen(int(sys.argv[-1]), "w", buffering=1) as replies:
        answer_all(setup, sys.stdin, replies)


def answer_all(setup: Setup, requests: Iterable[str], replies: TextIO) -> None:
    """Write one reply line per request line; `setup` turns its settings into the operations of later rounds."""
    operations: Mapping[str, Operation] = {}
    for line in requests:
        try:
            request = json.loads(line)
            if "setup" in request:
                operations = setup(request["setup"])
                reply: dict[str, Any] = {"operations": sorted(operations)}
            else:
                seconds, checksum = operations[request["operation"]](request["round"])
                reply = {"seconds": seconds, "checksum": checksum}
        except Exception as error:  # noqa: BLE001 - whatever a peer's library raises is an answer, not an end
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
