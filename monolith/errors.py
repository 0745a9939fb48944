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
    """A loss or gradient is NaN or infinite; rows and weights are as they were before the batch."""


class CorruptFrameError(MonolithError, ValueError):
    """Bytes from a connection are not a frame, or one beyond the limits; the connection is closed."""


class RemoteError(MonolithError):
    """The other process answered a request with an error; its words are the message."""


class SecretError(MonolithError, PermissionError):
    """One side of a connection does not know the job's shared secret, or the secret's file cannot be used."""


class FencedError(MonolithError):
    """A newer generation of the job is at work: this process must stop, what it sends is refused."""
