"""What is wrong with a record, and the exception that says so."""

from dataclasses import dataclass

from monolith.errors import MonolithError


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is damaged, or whose values are of another type than asked for."""

    record: int
    """Index of the record in its batch."""

    offset: int
    """Byte of the record at which reading stopped."""

    reason: str
    """What was expected there."""


class BadRecordError(MonolithError, ValueError):
    """A record could not be parsed; `bad` says which and why."""

    def __init__(self, bad: BadRecord, num_bad: int) -> None:
        """Tell of the first of `num_bad` bad records in a batch."""
        more = f" ({num_bad - 1} more in this batch)" if num_bad > 1 else ""
        super().__init__(
            f'record {bad.record}, byte {bad.offset}: {bad.reason}{more}; on_error="skip" leaves such records out'
        )
        self.bad = bad


class MissingFeatureError(MonolithError, LookupError):
    """A required feature is in no record of a batch."""
