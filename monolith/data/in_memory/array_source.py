"""ArraySource: arrays, tensors and lists as batches."""

from collections.abc import Mapping

from monolith.data.batch import Column, num_events
from monolith.data.columnar.arrow_columns import Fill, check_fill
from monolith.data.in_memory.indexed_rows import IndexedRows
from monolith.data.in_memory.plain_columns import Values, copy_rows, infer_schema, to_columns
from monolith.data.schema import Schema


class ArraySource(IndexedRows):
    """Batches of columns that are in memory, as a `Source`; batches have memory of their own.

    >>> source = ArraySource({"uid": [7, 8, 9], "tags": [[1], [], [2, 3]]}, batch_size=2)
    >>> [batch.columns["tags"].to_list() for batch in source]
    [[[1], []], [[2, 3]]]

    Args:
        columns: NumPy arrays, tensors, ragged tensors or lists by name, all of one length.
        batch_size: Events per batch.
        schema: Columns to take, and their types; without it, all as they are.
        fill_missing: What None reads as, by column; None in another column is an error. In one of type "hash" it is the
            empty text, in one of type "hash[]" the empty list.
        drop_remainder: Leave out a last batch of fewer events.

    Raises:
        ValueError: Columns differ in length, one is missing, or a value does not fit its type.
    """

    def __init__(
        self,
        columns: Mapping[str, Values],
        batch_size: int = 512,
        schema: Schema | None = None,
        *,
        fill_missing: Mapping[str, Fill] | None = None,
        drop_remainder: bool = False,
    ) -> None:
        schema = schema or infer_schema(columns)
        fill = check_fill(fill_missing, schema)
        self._held = to_columns(columns, schema, fill)
        lengths = {name: num_events(column) for name, column in self._held.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns must be of one length, got {lengths}")
        num_rows = next(iter(lengths.values()))
        super().__init__(
            schema.with_missing(fill), batch_size=batch_size, num_rows=num_rows, drop_remainder=drop_remainder
        )

    def _columns(self, first: int, last: int) -> Mapping[str, Column]:
        return copy_rows(self._held, first, last)
