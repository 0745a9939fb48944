"""Requests that were read, and their answers: predictions as bytes, values and errors as JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.responses import Response

from monolith.errors import NotFiniteError
from monolith.export.serving_model import Question
from monolith.export.signature import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What goes back to a client."""

    content: bytes

    num_examples: int

    json_bytes: int | None = None
    """Number of bytes that are JSON, if raw tensors follow; None if everything is JSON."""

    shards_away: tuple[int, ...] = ()
    """Shards whose rows were zeros because no replica answered in time."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A request that was read."""

    question: Question

    answer: Callable[[Mapping[str, Array]], Answer]
    """Makes the answer of the outputs; raises a NotFiniteError that names the one that JSON cannot hold."""


def require_finite(outputs: Mapping[str, Array]) -> None:
    """Raise a NotFiniteError that names the output if a value is NaN or infinite: JSON cannot hold it."""
    for name, values in outputs.items():
        finite = np.isfinite(values)
        if not finite.all():
            example = int(np.argwhere(~finite)[0][0])
            raise NotFiniteError(
                f"output {name!r} of example {example} is NaN or infinite: the model cannot predict for these inputs; "
                "is a number in them far from those it was trained on?"
            )


def json_response(
    value: Mapping[str, Any] | Sequence[Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a value as an answer."""
    # ASCII: a path may hold halves of characters, which nothing else could write down.
    return Response(json.dumps(value).encode(), status, headers, "application/json")


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as an answer."""
    return json_response({"error": message}, status, headers)
