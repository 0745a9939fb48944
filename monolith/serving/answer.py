"""Predictions as the bytes of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from monolith.errors import NotFiniteError
from monolith.export.signature import Column


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What goes back to a client."""

    content: bytes

    num_examples: int

    json_bytes: int | None = None
    """How much of the content is JSON, where tensors follow it as they lie in memory; None if all is."""


def require_finite(outputs: Mapping[str, Column]) -> None:
    """Raise a NotFiniteError, which names the output, for what no client is to blame and JSON cannot say."""
    for name, values in outputs.items():
        if not np.isfinite(values).all():
            raise NotFiniteError(f"output {name!r} has a prediction that is NaN or infinite")
