"""Batches of serialized records turned into batches of columns."""

from typing import Protocol

from torch import Tensor

from monolith.data.batch import Batch, Column
from monolith.data.schema import Schema
from monolith.tensors import Ragged

RECORD_COLUMN = "record"


class Parser(Protocol):
    """What turns records into columns: see `monolith.data.parse`, or write your own."""

    @property
    def schema(self) -> Schema:
        """The columns it makes."""
        ...

    def __call__(self, records: Ragged) -> tuple[dict[str, Column], Tensor | None]:
        """Return columns, and the indices of the records that were not left out (None: all are there)."""
        ...


class ParseStep:
    """Parses the column "record" of batches; what is wrong with a record says which batch it is in."""

    def __init__(self, parser: Parser) -> None:
        """Take a parser."""
        self.parser = parser

    @property
    def num_skipped(self) -> int:
        """Records that ``on_error="skip"`` left out so far; 0 of a parser that does not count."""
        return int(getattr(self.parser, "num_skipped", 0))

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with what the parser makes of its records."""
        records = batch.columns.get(RECORD_COLUMN)
        if not isinstance(records, Ragged):
            raise ValueError(
                f"batch {batch.name} has no column {RECORD_COLUMN!r} of bytes to parse; its columns are "
                f"{', '.join(batch.columns)}"
            )
        try:
            return batch.with_columns(self.parser(records)[0])
        except (ValueError, LookupError) as error:
            error.add_note(f"in batch {batch.name}")
            raise
