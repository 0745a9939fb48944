"""Records that are JSON objects, as messages of a stream often are."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith.data.batch import Column, concatenate, select_rows, slice_rows
from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_columns import Fill, check_fill, columns_of
from monolith.data.columnar.checks.json_objects import check_objects
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.json_table import json_fields, read_objects
from monolith.data.schema import Schema
from monolith.data.source import OnError
from monolith.tensors import Ragged


class JsonParser:
    """Parses records that are one JSON object each; keys that the schema does not name are ignored.

    >>> parser = JsonParser(Schema.of(uid="int64", tags="int64[]"))
    >>> columns, kept = parser(Ragged.from_bytes([b'{"uid": 7, "tags": [1]}', b'{"tags": [], "uid": 8}']))
    >>> columns["uid"].tolist(), columns["tags"].to_list(), kept
    ([7, 8], [[1], []], None)
    """

    def __init__(
        self,
        schema: Schema,
        *,
        fill_missing: Mapping[str, Fill] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        """Prepare for these columns; `fill_missing` says what null and a missing key read as, by column."""
        arrow()  # missing, it is an error here and not at the first record, which may come hours later
        self.num_skipped = 0
        """Records left out so far."""
        self._fill = check_fill(fill_missing, schema)
        self.schema = schema.with_missing(self._fill)
        self._skips = on_error == "skip"
        self._stored = {name: name for name in schema.names}

    def __call__(self, records: Ragged) -> tuple[dict[str, Column], Tensor | None]:
        """Return the columns, and the indices of the records that were not left out (None: all are there)."""
        try:
            return self._columns_of_all(records), None
        except (arrow().ArrowException, ColumnError):
            pass
        good = [number for number in range(records.num_rows) if self._is_good(records, number)]
        kept = torch.tensor(good, dtype=torch.int64)
        self.num_skipped += records.num_rows - len(good)
        chosen = select_rows(records, kept)
        assert isinstance(chosen, Ragged)  # rows of a Ragged are one
        return self._columns_of_all(chosen), kept

    def _columns_of_all(self, records: Ragged) -> dict[str, Column]:
        """Return the columns; where records cannot be read at once, halves are: text and numbers may alternate."""
        try:
            return self._columns(records)
        except arrow().ArrowInvalid:
            if records.num_rows <= 1:
                raise
        middle = records.num_rows // 2
        cuts = (slice_rows(records, 0, middle), slice_rows(records, middle, records.num_rows))
        halves = [self._columns_of_all(cut) for cut in cuts if isinstance(cut, Ragged)]
        return {name: concatenate([half[name] for half in halves]) for name in self.schema.names}

    def _columns(self, records: Ragged) -> dict[str, Column]:
        # White space between two tokens may be any; within strings JSON knows no plain line breaks.
        text = b"".join(record.replace(b"\n", b" ") + b"\n" for record in records.to_bytes_list())
        check_objects(text, np.cumsum(records.row_lengths().numpy() + 1))
        # pyarrow takes no text for a mistake.
        table: Any = json_fields(self.schema).empty_table()
        if records.num_rows:
            table = read_objects(text, self.schema)
        if table.num_rows != records.num_rows:
            raise ColumnError(f"{table.num_rows} objects in {records.num_rows} records; a record holds exactly one")
        return columns_of(table.combine_chunks().to_batches(), self.schema, self._stored, self._fill)

    def _is_good(self, records: Ragged, number: int) -> bool:
        one = select_rows(records, torch.tensor([number]))
        assert isinstance(one, Ragged)
        try:
            self._columns(one)
        except (arrow().ArrowException, ColumnError) as error:
            if self._skips:
                return False
            text = one.to_bytes_list()[0][:80]
            raise ColumnError(
                f'record {number} of the batch: {error}; it is {text!r}; mend it, or say on_error="skip"'
            ) from error
        return True
