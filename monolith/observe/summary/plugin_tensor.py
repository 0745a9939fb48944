"""PluginTensor: a summary that a model makes in its `model_fn`, collected by the step that runs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class PluginTensor:
    """A tensor for the `monolith` plugin."""

    tag: str
    values: Tensor
    description: str
    content: bytes | str
    """What the plugin knows of the tensor: its head as JSON."""


_collected: ContextVar[list[PluginTensor] | None] = ContextVar("collected", default=None)


@contextmanager
def collected_summaries() -> Iterator[list[PluginTensor]]:
    """Yield a list that `nas_data` and `feature_insight_data` fill inside the block."""
    found: list[PluginTensor] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def collect(tag: str, values: Tensor, description: str, content: bytes | str) -> PluginTensor:
    """Return a tensor for the plugin; inside `collected_summaries` it is also in the list."""
    # A copy: the step that follows changes weights in place.
    made = PluginTensor(tag, values.detach().clone(), description, content)
    found = _collected.get()
    if found is not None:
        found.append(made)
    return made
