"""Sources that several runs share: each run finds a source where the first one found it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from monolith.data.source import Source, State


@contextmanager
def rewound(source: Source) -> Iterator[None]:
    """Return a source, after the block, to where it stood before; close its files and end its threads.

    A source that shares out its events among trainers stays where it is: others would read them again.
    """
    begin = source.state()
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the first error says more
            _go_back(source, begin)
        raise
    _go_back(source, begin)


def _go_back(source: Source, begin: State) -> None:
    steps = list(_chain(source))
    if any(getattr(step, "shares_out", False) for step in steps):
        return
    for step in steps:
        if hasattr(step, "close"):
            step.close()  # what makes batches ahead would move the source again
    if source.state() != begin:
        source.restore(begin)


def _chain(source: object) -> Iterator[Any]:
    """Yield a source and those below it."""
    below: object | None = source
    while below is not None:
        yield below
        reader = getattr(below, "_reader", None)
        below = getattr(below, "source", None) or getattr(below, "_source", None) or getattr(reader, "source", None)
