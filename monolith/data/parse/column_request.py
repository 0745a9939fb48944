"""ColumnRequest: one column that a parser makes of records."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from monolith.data.schema import ColumnType, Dtype
from monolith.features.string_hash import hash_bytes, text_bytes

INVALID_LABEL = -3.4028234663852886e38
"""Stands for a label that is not there: the lowest float32."""

FLT_MIN = 1.1754943508222875e-38
"""Stands for a scalar float feature of an Example or Instance that is there, but has no value."""

Missing: TypeAlias = float | str | bytes
"""What a missing value reads as."""

ValueSource: TypeAlias = Literal["feature", "slot", "line_id", "label", "instance_weight", "cell"]

NativeSpec: TypeAlias = tuple[str, str, str, int, int, float, float, bool, int, bool, bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnRequest:
    """One column that a parser makes of records: its name, its type and where its values come from.

    >>> ColumnRequest(name="tags", dtype="int64[]").native()
    ('tags', 'feature', 'int64', -1, 0, 0.0, 0.0, False, 0, True, True)
    """

    name: str

    dtype: Dtype
    """As in a `Schema`: "int64", "float32[13]", "int64[]", "bytes" and so on."""

    source: ValueSource = "feature"
    """The feature of this name, the flat ids of a slot, the field of the line id of this name, the record's own labels
    or weight, or a cell of a CSV line."""

    slot: int = 0
    """Of an Instance's flat ids, with source "slot"; number of the cell, with source "cell"."""

    missing: Missing | None = 0.0
    """What a value reads as that a record lacks; lists shorter than a fixed width are filled up with it.

    With type "hash" a text, 0 is the empty one. None: with source "cell", a missing value is an error."""

    empty: float | None = None
    """What a scalar float feature reads as that is there, but has no value; None: the same as if it were missing."""

    required: bool = False
    """A batch in which no record has it is an error."""

    convert_to_v2: bool = False
    """With source "slot": turn the ids from layout v1 into layout v2."""

    def __post_init__(self) -> None:
        """Reject what no parser could deliver."""
        kind = ColumnType.parse(self.dtype)
        if not self.name:
            raise ValueError("a column needs a name")
        if self.source == "slot" and self.dtype != "int64[]":
            raise ValueError(f"column {self.name!r}: ids of a slot are int64[], got {self.dtype!r}")
        if self.source in ("label", "instance_weight") and kind.item != "float32":
            raise ValueError(f"column {self.name!r}: {self.source} is float32, got {self.dtype!r}")

    @property
    def missing_value(self) -> Missing | None:
        """What a missing value reads as: a text if the column is of type "hash"."""
        return self.missing or "" if ColumnType.parse(self.dtype).is_hash else self.missing

    def native(self) -> NativeSpec:
        """Return the form that the compiled parser takes."""
        kind = ColumnType.parse(self.dtype)
        item = "bytes" if kind.item == "uint8" else "hash" if kind.is_hash else kind.item
        width = -1 if kind.width is None else kind.width
        missing, missing_id = self._missing_numbers(kind)
        empty = missing if self.empty is None else self.empty
        is_optional = self.missing is not None
        switches = (self.convert_to_v2, missing_id, kind.is_list and item != "bytes", is_optional)
        return (self.name, self.source, item, width, self.slot, missing, empty, *switches)

    def _missing_numbers(self, kind: ColumnType) -> tuple[float, int]:
        """Return what a missing value reads as, for a column of floats and for one of ids."""
        if kind.is_hash:
            return 0.0, hash_bytes(text_bytes(self.missing_value or ""))
        if not isinstance(self.missing, int | float | None):
            raise ValueError(f"column {self.name!r} is {self.dtype}; a missing value cannot read as {self.missing!r}")
        missing = 0 if self.missing is None else self.missing
        return float(missing), int(missing) if kind.item == "int64" else 0


def label_column(name: str = "label", dtype: Dtype = "float32") -> ColumnRequest:
    """Return the request for a record's labels; those it lacks are `INVALID_LABEL`."""
    return ColumnRequest(name=name, dtype=dtype, source="label", missing=INVALID_LABEL)


def weight_column(name: str = "instance_weight", dtype: Dtype = "float32") -> ColumnRequest:
    """Return the request for a record's weight; one that is missing or not positive is 1."""
    return ColumnRequest(name=name, dtype=dtype, source="instance_weight", missing=1.0)
