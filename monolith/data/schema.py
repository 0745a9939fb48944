"""Schema: which columns the records of a source have, in which order and of which type."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

Dtype: TypeAlias = str
"""What a column holds per event.

"int64", "float32": one number. "int64[13]": 13 numbers, a tensor [events, 13]. "int64[]": any number of them, a
`Ragged`. "bytes": one string of bytes, a `Ragged` of uint8.

"hash", "hash[]", "hash[3]": text, which becomes int64 ids by `monolith.features.string_hash`. Batches have the ids.
"""

KINDS = "int64, float32 or hash, a list of these such as int64[] or float32[13], or bytes"
_FORM = re.compile(r"(?P<item>int64|float32|hash)(?P<list>\[(?P<width>[1-9][0-9]{0,8})?\])?|(?P<bytes>bytes)")
_NUMPY_NAMES: dict[str, str] = {"int64": "<i8", "float32": "<f4", "uint8": "|u1"}

ItemType: TypeAlias = Literal["int64", "float32", "uint8"]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A `Dtype` taken apart.

    >>> ColumnType.parse("float32[13]")
    ColumnType(item='float32', width=13)
    >>> ColumnType.parse("bytes").is_ragged
    True
    """

    item: ItemType
    """Type of one number; uint8 for strings of bytes."""

    width: int | None = 1
    """Numbers per event; None if events differ in that."""

    is_list: bool = False
    """A dimension of its own, even if one wide."""

    is_hash: bool = False
    """The numbers are ids of texts: sources read texts, batches have int64."""

    @classmethod
    def parse(cls, text: str) -> "ColumnType":
        """Return the type that a `Dtype` names."""
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"a column's type must be {KINDS}, got {text!r}")
        if found["bytes"]:
            return cls("uint8", None, True)
        width = None if found["list"] == "[]" else int(found["width"] or 1)
        item: ItemType = "float32" if found["item"] == "float32" else "int64"
        return cls(item, width, bool(found["list"]), found["item"] == "hash")

    @property
    def is_ragged(self) -> bool:
        """Events have different numbers of values."""
        return self.width is None

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """Type of one number, little-endian."""
        return np.dtype(_NUMPY_NAMES[self.item])

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one event's values where it is the same for all."""
        if self.width is None:
            raise ValueError("events of a ragged column differ in length")
        return (self.width,) if self.is_list else ()

    def __repr__(self) -> str:
        return f"ColumnType(item={self.item!r}, width={self.width}{', is_hash=True' if self.is_hash else ''})"


@dataclass(frozen=True, slots=True)
class Schema:
    """Ordered, named columns.

    >>> schema = Schema.of(uid="int64", label="float32")
    >>> schema.names
    ('uid', 'label')
    >>> schema.record_bytes
    12
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    columns: tuple[tuple[str, Dtype], ...]
    """Name and type of each column, in the order in which records store them."""

    missing: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """What the source reads in place of a missing value, by column; None where the source does not say."""

    records: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    """How the columns are read out of serialized records, as `RecordColumns` has it; None where they do not come so."""

    def __post_init__(self) -> None:
        """Reject what no record could have."""
        if not self.columns:
            raise ValueError("a schema needs at least one column, such as ('uid', 'int64')")
        for name, dtype in self.columns:
            if not isinstance(name, str) or not name:
                raise ValueError(f"column names must be non-empty text, got {name!r}")
            try:
                ColumnType.parse(dtype)
            except ValueError as error:
                raise ValueError(f"column {name!r}: {error}") from None
        if len(set(self.names)) != len(self.columns):
            raise ValueError(f"column names must differ from each other, got {self.names}")

    @classmethod
    def of(cls, **columns: Dtype) -> "Schema":
        """Return a schema of the named columns, in the order given."""
        return cls(tuple(columns.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(name for name, _ in self.columns)

    @property
    def types(self) -> dict[str, ColumnType]:
        """Type of each column, by name, in order."""
        return {name: ColumnType.parse(dtype) for name, dtype in self.columns}

    @property
    def numpy_dtype(self) -> np.dtype[np.void]:
        """One packed record: little-endian, in column order, no padding; a ragged column is its number of values."""
        return np.dtype(
            [
                (name, "<u4") if kind.is_ragged else (name, kind.numpy_dtype, kind.event_shape)
                for name, kind in self.types.items()
            ]
        )

    @property
    def record_bytes(self) -> int:
        """Size of one packed record, without the values of ragged columns."""
        return self.numpy_dtype.itemsize

    @property
    def hash(self) -> int:
        """64 bits that differ between schemas: BLAKE2b of the JSON form."""
        return int.from_bytes(hashlib.blake2b(self.to_json().encode(), digest_size=8).digest(), "little")

    def with_columns(self, **columns: Dtype) -> "Schema":
        """Return these columns and more; one of the same name is replaced in its place."""
        return replace(self, columns=tuple({**dict(self.columns), **columns}.items()))

    def without(self, *names: str) -> "Schema":
        """Return the columns but for the named ones."""
        return replace(self, columns=tuple((name, dtype) for name, dtype in self.columns if name not in names))

    def with_missing(self, missing: Mapping[str, Any]) -> "Schema":
        """Return the same columns with what a missing value reads as."""
        return replace(self, missing=dict(missing))

    def to_json(self) -> str:
        """Return the one JSON text of this schema: equal schemas give equal text."""
        return json.dumps({"columns": [list(column) for column in self.columns]}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Schema":
        """Return the schema that `to_json` wrote; `ValueError` if the text is anything else."""
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a schema must be JSON, got {text[:80]!r} ({error})") from error
        columns = value.get("columns") if isinstance(value, dict) else None
        if not isinstance(columns, list) or not all(isinstance(c, list) and len(c) == 2 for c in columns):
            raise ValueError(f'a schema must look like {{"columns": [["uid", "int64"]]}}, got {text[:80]!r}')
        return cls(tuple((name, dtype) for name, dtype in columns))

    def __iter__(self) -> Iterator[tuple[str, Dtype]]:
        return iter(self.columns)
