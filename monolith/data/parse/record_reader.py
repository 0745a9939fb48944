"""RecordReader: records of somebody who is not trusted, as columns for predictions."""

from collections.abc import Sequence

import torch

from monolith.data.batch import Column
from monolith.data.parse.bad_record import BadRecordError, MissingFeatureError
from monolith.data.parse.column_request import ColumnRequest
from monolith.data.parse.record_columns import RecordColumns
from monolith.data.parse.record_parser import RecordParser, records_of
from monolith.data.schema import ColumnType
from monolith.tensors import Ragged

MAX_VALUES = 1 << 28
"""Numbers that the records of one call may take in memory, however few bytes they have."""


class RecordReader:
    """Reads records of one form; any number of threads may do so at a time."""

    def __init__(self, form: RecordColumns) -> None:
        """Prepare; a ValueError says which column no record can hold."""
        self._parser = RecordParser(form.format, form.columns)
        widths = [ColumnType.parse(column.dtype).width for column in form.columns]
        self._values_per_row = sum(width for width in widths if width is not None)
        # Rows of a batch are counted before they are read: a few bytes may stand for many values of each.
        counted = ColumnRequest(name="instance_weight", dtype="float32", source="instance_weight", missing=1.0)
        self._counter = RecordParser(form.format, [counted]) if form.format == "example_batch" else None

    def read(self, serialized: Sequence[bytes]) -> dict[str, Column]:
        """Return the columns of the records.

        Raises:
            ValueError: a record is damaged, or holds something else than the model reads; the message says which.
        """
        records = records_of(serialized)
        try:
            self._check_size(serialized, records)
            columns = self._parser.parse(records).columns
        except BadRecordError as error:
            bad = error.bad
            raise ValueError(f"record {bad.record} is damaged at byte {bad.offset}: {bad.reason}") from None
        except MissingFeatureError as error:
            raise ValueError(str(error)) from None
        for name, column in columns.items():
            values = column.values if isinstance(column, Ragged) else column
            if values.is_floating_point() and not torch.isfinite(values).all():
                raise ValueError(f"feature {name!r} of a record is NaN or infinite")
        return columns

    def _check_size(self, serialized: Sequence[bytes], records: Ragged) -> None:
        num_rows, num_values = len(serialized), len(serialized) * self._values_per_row
        if self._counter is not None:
            num_rows = self._counter.parse(records).num_rows
            num_values = num_rows * max(self._values_per_row, max(map(len, serialized), default=0))
        if num_values > MAX_VALUES:
            raise ValueError(
                f"{num_rows} examples in records may take {num_values} values in memory, {MAX_VALUES} at most are "
                "read; send fewer examples at a time"
            )
