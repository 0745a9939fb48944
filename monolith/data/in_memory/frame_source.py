"""FrameSource: a pandas or polars frame as batches."""

from collections.abc import Mapping, Sequence
from typing import Any

from monolith.data.batch import Column
from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill, check_fill, columns_of
from monolith.data.columnar.arrow_types import check_types, infer_schema, stored_names
from monolith.data.columnar.column_error import ColumnError
from monolith.data.in_memory.indexed_rows import IndexedRows
from monolith.data.in_memory.plain_columns import copy_rows
from monolith.data.schema import Schema


class FrameSource(IndexedRows):
    """Batches of a data frame, as a `Source`; batches have memory of their own.

    Types are those of `ParquetSource`. What the frame's library takes for missing (None, and NaN in pandas) is missing
    here. The index of a pandas frame is left out; `reset_index()` makes it a column.

    >>> import pandas
    >>> source = FrameSource(pandas.DataFrame({"uid": [7, 8, 9], "price": [0.5, 1.5, 2.5]}), batch_size=2)
    >>> [batch.columns["price"].tolist() for batch in source]
    [[0.5, 1.5], [2.5]]

    Args:
        frame: A pandas or polars frame, or anything else that gives its columns to Arrow.
        batch_size: Rows per batch.
        schema: Columns to take, and their types; without it, all as they are.
        columns: Without a schema: names of the columns to take.
        fill_missing: What stands in for missing values, by column; a missing value of another column is an error.
        drop_remainder: Leave out a last batch of fewer events.

    Raises:
        ColumnError: A column is missing, of another type, or lacks a value.
    """

    def __init__(
        self,
        frame: Any,
        batch_size: int = 512,
        schema: Schema | None = None,
        *,
        columns: Sequence[str] | None = None,
        fill_missing: Mapping[str, Fill] | None = None,
        drop_remainder: bool = False,
    ) -> None:
        if schema is not None and columns is not None:
            raise ValueError("give either a schema or columns, not both; a schema selects columns too")
        table = _arrow_table(frame)
        schema = schema or infer_schema(table.schema, columns)
        stored = stored_names(table.column_names, schema)
        check_types(table.schema, schema, stored)
        fill = check_fill(fill_missing, schema)
        try:
            self._held = columns_of([table], schema, stored, fill)
        except ColumnError as error:
            raise error.within(f"row {error.row}") from error.__cause__
        super().__init__(
            schema.with_missing(fill), batch_size=batch_size, num_rows=table.num_rows, drop_remainder=drop_remainder
        )

    def _columns(self, first: int, last: int) -> Mapping[str, Column]:
        return copy_rows(self._held, first, last)


def _arrow_table(frame: Any) -> Any:
    pa = arrow()
    if isinstance(frame, pa.Table):
        return frame
    # By what a frame offers, not by its class: neither library need be installed, let alone loaded.
    if hasattr(frame, "to_arrow"):
        return frame.to_arrow()
    if hasattr(frame, "iloc"):
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ColumnError(f"the frame has a column of mixed types: {error.args[0]}") from error
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise TypeError(f"frame must be a pandas or polars frame, got {type(frame).__name__}; ArraySource takes a dict")
