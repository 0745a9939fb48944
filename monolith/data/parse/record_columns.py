"""RecordColumns: what a parser needs to know of records, as JSON, so that an exported model can read them too."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Self, TypeAlias, cast, get_args

from monolith.data.parse.column_request import ColumnRequest, ValueSource
from monolith.errors import shown

SerializedFormat: TypeAlias = Literal["tf_example", "example", "example_batch", "instance"]
"""The formats of records that are protocol buffers."""

FORMATS: Final = get_args(SerializedFormat)

_KINDS: Final = {
    "name": str,
    "dtype": str,
    "source": str,
    "slot": int,
    "missing": (int, float, str),
    "empty": (int, float),
    "required": bool,
    "convert_to_v2": bool,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordColumns:
    """Format of serialized records, and the columns that are read out of them."""

    format: SerializedFormat

    columns: tuple[ColumnRequest, ...]

    def only(self, names: Collection[str]) -> Self | None:
        """Return the form of these columns alone; None if records do not have all of them."""
        kept = tuple(column for column in self.columns if column.name in names)
        return type(self)(format=self.format, columns=kept) if len(kept) == len(names) else None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it; members that have their default are left out."""
        return {"format": self.format, "columns": [_to_json(column) for column in self.columns]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote; a ValueError says what is wrong with anything else."""
        if not isinstance(value, Mapping) or value.get("format") not in FORMATS:
            raise ValueError(f"the format of records must be one of {', '.join(FORMATS)}, got {shown(value)}")
        columns = value.get("columns")
        if not isinstance(columns, list):
            raise ValueError(f"the columns of records must be a list, got {shown(columns)}")
        return cls(format=value["format"], columns=tuple(_from_json(one) for one in columns))


def _to_json(column: ColumnRequest) -> dict[str, Any]:
    given = {one.name: getattr(column, one.name) for one in fields(column)}
    if isinstance(given["missing"], bytes):
        given["missing"] = given["missing"].decode("utf-8", "surrogateescape")
    return {one.name: given[one.name] for one in fields(column) if given[one.name] != one.default}


def _from_json(value: object) -> ColumnRequest:
    if not isinstance(value, dict) or not {"name", "dtype"} <= value.keys():
        raise ValueError(f"a column of records has a name and a type, got {shown(value)}")
    for name, one in value.items():
        kind = _KINDS.get(name)
        if kind is None or not isinstance(one, cast(Any, kind)) and not (name in ("missing", "empty") and one is None):
            raise ValueError(f"column {shown(value['name'])} of records cannot have {shown(name)} = {shown(one)}")
    if value.get("source", "feature") not in get_args(ValueSource):
        raise ValueError(f"column {shown(value['name'])} of records: unknown source {shown(value['source'])}")
    return ColumnRequest(**value)
