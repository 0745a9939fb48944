"""The exceptions a caller may want to catch.

A mistake in an argument is a plain `ValueError` or `TypeError`. What is here can happen to a program that made none.

>>> issubclass(CorruptFileError, ValueError) and issubclass(TableFullError, MemoryError)
True
"""


class MonolithError(Exception):
    """Base of what Monolith raises when something other than an argument is wrong."""


class CorruptFileError(MonolithError, ValueError):
    """A file or message is damaged, truncated or of another format; nothing was taken from it."""


class NewerFormatError(CorruptFileError):
    """A whole file of a format that only a later release reads; it is neither used nor passed over."""


class TableFullError(MonolithError, MemoryError):
    """A table reached its memory limit and its policy is to refuse new ids; the table stays as it was."""


class PlanMismatchError(MonolithError, ValueError):
    """A snapshot, an export or a peer was made for another lookup plan; the message names what differs."""


class ModelDirInUseError(MonolithError, RuntimeError):
    """Another process trains in this folder; the message names it."""


class NotFiniteError(MonolithError, ArithmeticError):
    """Something is NaN or infinite, or would become so.

    A loss or gradient: rows and weights are as they were before the batch. A row that a step would ruin: it keeps its
    value, and so do dense weights; the other rows of the batch were stepped. A row in a checkpoint: nothing was
    restored.
    """


class CorruptFrameError(MonolithError, ValueError):
    """Bytes from a connection are not a frame, or one beyond the limits; the connection is closed."""


class RemoteError(MonolithError):
    """The other process answered a request with an error; its words are the message."""


class SecretError(MonolithError, PermissionError):
    """One side of a connection does not know the job's shared secret, or the secret's file cannot be used."""


class FencedError(MonolithError):
    """A newer generation of the job is at work: this process must stop, what it sends is refused."""


def shown(value: object, max_characters: int = 60) -> str:
    """Return how an error message names a value from outside: its `repr`, never longer than a line.

    >>> shown("a" * 1000)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."
    """
    is_long = isinstance(value, str | bytes | list | tuple) and len(value) > max_characters
    # Cut before too: the repr of a long text would be made whole first.
    text = repr(value[:max_characters] if is_long else value)  # type: ignore[index]
    return f"{text[:max_characters]}..." if is_long or len(text) > max_characters else text
