"""Schema: which columns the records of a source have, in which order and of which type."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

Dtype: TypeAlias = Literal["int64", "float32"]
"""What a column holds: one number of this type per event."""

_NUMPY_NAMES: dict[str, str] = {"int64": "<i8", "float32": "<f4"}


@dataclass(frozen=True, slots=True)
class Schema:
    """Ordered, named columns of one number per event.

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

    def __post_init__(self) -> None:
        """Reject what no record could have."""
        if not self.columns:
            raise ValueError("a schema needs at least one column, such as ('uid', 'int64')")
        for name, dtype in self.columns:
            if not isinstance(name, str) or not name:
                raise ValueError(f"column names must be non-empty text, got {name!r}")
            if dtype not in get_args(Dtype):
                raise ValueError(f"column {name!r}: type must be one of {get_args(Dtype)}, got {dtype!r}")
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
    def numpy_dtype(self) -> np.dtype[np.void]:
        """One record as NumPy sees it: little-endian, in column order, no padding."""
        return np.dtype([(name, _NUMPY_NAMES[dtype]) for name, dtype in self.columns])

    @property
    def record_bytes(self) -> int:
        """Size of one packed record."""
        return self.numpy_dtype.itemsize

    @property
    def hash(self) -> int:
        """64 bits that differ between schemas: BLAKE2b of the JSON form."""
        return int.from_bytes(hashlib.blake2b(self.to_json().encode(), digest_size=8).digest(), "little")

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
        return cls(tuple((name, _as_dtype(name, dtype)) for name, dtype in columns))

    def __iter__(self) -> Iterator[tuple[str, Dtype]]:
        return iter(self.columns)


def _as_dtype(name: object, dtype: object) -> Dtype:
    """Return `dtype` if it is a known one; JSON may hold anything."""
    for known in get_args(Dtype):
        if dtype == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"column {name!r}: type must be one of {get_args(Dtype)}, got {dtype!r}")
