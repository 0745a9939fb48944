"""Sources that several runs share: each run finds a source where the first one found it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from monolith.data.source import Source, State


@contextmanager
def rewound(source: Source) -> Iterator[None]:
    """Return a source, after the block, to where it stood before.

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
    if not _shares_out(source) and source.state() != begin:
        source.restore(begin)


def _shares_out(source: object) -> bool:
    """Return whether a source, or the one below its steps, hands each event to one trainer only."""
    while not getattr(source, "shares_out", False):
        reader = getattr(source, "_reader", None)
        below = getattr(source, "source", None) or getattr(source, "_source", None) or getattr(reader, "source", None)
        if below is None:
            return False
        source = below
    return True
