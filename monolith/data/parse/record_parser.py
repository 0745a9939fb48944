"""RecordParser: serialized records in, columns out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from monolith._core import native
from monolith.data.batch import Column
from monolith.data.parse.bad_record import BadRecord, BadRecordError, MissingFeatureError
from monolith.data.parse.column_request import ColumnRequest, Missing, NativeSpec
from monolith.data.parse.record_columns import RecordColumns
from monolith.data.schema import ColumnType, Schema
from monolith.data.source import OnError
from monolith.features.kept_strings import noted
from monolith.tensors import Ragged

Format: TypeAlias = Literal["tf_example", "example", "example_batch", "instance", "csv"]
CsvShape: TypeAlias = tuple[int, int, str]
"""Cells of every line, code of the delimiter, delimiter of lists."""
NO_CSV: CsvShape = (0, 0, "|")
"""For the other formats."""

_Bytes: TypeAlias = Tensor | np.ndarray[Any, np.dtype[np.uint8]]
_Splits: TypeAlias = Tensor | np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class ParsedRecords:
    """What a parser made of a batch of records."""

    columns: dict[str, Column]

    num_rows: int
    """Length of every column."""

    bad: tuple[BadRecord, ...]
    """The records that were left out, in order."""

    kept: Tensor | None
    """Indices of the records that were not left out, int64; None if all are there."""


class RecordParser:
    """Turns serialized records of one format into columns.

    A batch of records is a `Ragged` of uint8, one row per record (see `records_of`). Parsing runs in compiled code on
    all cores, without the interpreter's lock.

    The sub-classes take names and types instead of requests; use a sub-class.
    """

    schema: Schema
    """The columns it returns."""

    def __init__(
        self,
        record_columnsat: Format,
        columns: Sequence[ColumnRequest],
        *,
        on_error: OnError = "raise",
        csv: CsvShape = NO_CSV,
    ) -> None:
        """Prepare for these columns.

        Args:
            record_columnsat: What the records are.
            columns: What to take out of the records.
            on_error: "raise": a bad record is a `BadRecordError`; "skip": it is left out.
            csv: What the lines have in common, with the format "csv".
        """
        if on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
        names = [column.name for column in columns]
        if len(set(names)) != len(names):
            raise ValueError(f"deplicate names, pls check! {sorted({n for n in names if names.count(n) > 1})}")
        missing = {column.name: column.missing_value for column in columns}
        form = RecordColumns(format=record_columnsat, columns=tuple(columns)) if record_columnsat != "csv" else None
        types = tuple((column.name, column.dtype) for column in columns)
        self.schema = Schema(types, missing, None if form is None else form.to_json())
        self.format: Format = record_columnsat
        self.columns = tuple(columns)
        self.on_error: OnError = on_error
        self.num_skipped = 0
        """Records left out so far."""
        self._native = _native_parser(record_columnsat, tuple(column.native() for column in columns), csv)
        self._types = tuple(ColumnType.parse(column.dtype) for column in columns)
        self._widths: dict[str, list[int]] = {"int64": [], "float32": []}
        for kind in self._types:
            if kind.width is not None:
                self._widths[kind.item].append(kind.width)

    def __call__(self, records: Ragged) -> tuple[dict[str, Column], Tensor | None]:
        """Return the columns, and the indices of the records that were not left out (None: all are there)."""
        parsed = self.parse(records)
        return parsed.columns, parsed.kept

    def parse(self, records: Ragged) -> ParsedRecords:
        """Return the columns and what was left out.

        Raises:
            BadRecordError: a record is damaged or has values of another type, and `on_error` is "raise".
            MissingFeatureError: a required feature is in no record of a batch that has any.
        """
        if records.values.dtype != torch.uint8:
            raise TypeError(f"records must be a Ragged of uint8, got {records.values.dtype}")
        return self.parse_rows(records.values, records.row_splits)

    def parse_rows(self, data: _Bytes, row_splits: _Splits) -> ParsedRecords:
        """Do what `parse` does, with records that stand end to end in `data`."""
        with noted() as texts:
            num_rows, num_places, ints, floats, ragged, absences, bad_records = self._native.parse(
                data, row_splits, texts
            )
        bad = tuple(BadRecord(*one) for one in bad_records)
        if bad and self.on_error == "raise":
            raise BadRecordError(bad[0], len(bad))
        self.num_skipped += len(bad)
        absent = [self.columns[place].name for place in absences if self.columns[place].required]
        if absent and num_rows:
            raise MissingFeatureError(f"no record of this batch has the required {', '.join(absent)}")
        columns = self._columns(num_rows, num_places, ints, floats, ragged)
        return ParsedRecords(columns, num_rows, bad, _kept(len(row_splits) - 1, bad))

    def _columns(
        self,
        num_rows: int,
        num_places: int,
        ints: Tensor,
        floats: Tensor,
        ragged: Sequence[tuple[Tensor, Tensor] | None],
    ) -> dict[str, Column]:
        """Return the columns; those of a fixed width are parts of `ints` and `floats`."""
        # Two calls for all of them: a batch may have hundreds of columns.
        parts = {
            "int64": iter(ints.split_with_sizes([num_places * width for width in self._widths["int64"]])),
            "float32": iter(floats.split_with_sizes([num_places * width for width in self._widths["float32"]])),
        }
        columns: dict[str, Column] = {}
        for request, kind, lists in zip(self.columns, self._types, ragged, strict=True):
            if lists is not None:
                columns[request.name] = Ragged.unchecked(*lists)  # the parser has just made them
                continue
            assert kind.width is not None
            values = next(parts[kind.item])
            if num_rows != num_places:
                values = values[: num_rows * kind.width]
            columns[request.name] = values.view(num_rows, kind.width) if kind.is_list else values
        return columns


def records_of(serialized: Sequence[bytes]) -> Ragged:
    """Return records as parsers take them: a `Ragged` of uint8, one row per record.

    >>> records_of([b"ab", b"", b"c"]).row_splits.tolist()
    [0, 2, 2, 3]
    """
    joined = bytearray(b"".join(serialized))
    values = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.empty(0, dtype=torch.uint8)
    return Ragged.from_row_lengths(values, torch.tensor([len(one) for one in serialized], dtype=torch.int64))


def with_options(
    columns: Sequence[ColumnRequest], required: Sequence[str] | bool, missing: Mapping[str, Missing]
) -> list[ColumnRequest]:
    """Return the requests with these features required and these values where a record lacks one."""
    names = {column.name for column in columns}
    wanted = names if required is True else set(required or ())
    unknown = sorted((wanted | missing.keys()) - names)
    if unknown:
        raise ValueError(f"{', '.join(unknown)} in required or missing, but not among the columns {sorted(names)}")
    return [
        ColumnRequest(
            name=column.name,
            dtype=column.dtype,
            source=column.source,
            slot=column.slot,
            missing=missing.get(column.name, column.missing),
            empty=column.empty,
            required=column.name in wanted,
            convert_to_v2=column.convert_to_v2,
        )
        for column in columns
    ]


@lru_cache(maxsize=64)
def _native_parser(record_columnsat: Format, columns: tuple[NativeSpec, ...], csv: CsvShape) -> native.RecordParser:
    return native.RecordParser(record_columnsat, list(columns), csv)


def _kept(num_records: int, bad: tuple[BadRecord, ...]) -> Tensor | None:
    if not bad:
        return None
    keep = torch.ones(num_records, dtype=torch.bool)
    keep[[one.record for one in bad]] = False
    return keep.nonzero().squeeze(1)
