"""Batches of serialized records turned into batches of columns."""

from collections.abc import Callable
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


def parse_step(parser: Parser) -> Callable[[Batch], Batch]:
    """Return the function that parses the column "record" of a batch; a bad record names the batch it is in."""

    def parse(batch: Batch) -> Batch:
        records = batch.columns.get(RECORD_COLUMN)
        if not isinstance(records, Ragged):
            raise ValueError(
                f"batch {batch.name} has no column {RECORD_COLUMN!r} of bytes to parse; its columns are "
                f"{', '.join(batch.columns)}"
            )
        try:
            return batch.with_columns(parser(records)[0])
        except ValueError as error:
            error.add_note(f"in batch {batch.name}")
            raise

    return parse
