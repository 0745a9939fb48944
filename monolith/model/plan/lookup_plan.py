"""The lookup plan: every slice of every feature that a model asks for, frozen."""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from google.protobuf.json_format import ParseError

from monolith.embedding import TableConfig
from monolith.model.plan.planned_table import PlannedFeature, PlannedTable, hash64
from monolith.model.plan.slices import SliceKey

PLAN_FORMAT = 1
"""Version of the JSON form."""

_CLIPPING = "maxGradientNorm"


@dataclass(frozen=True)
class LookupPlan:
    """What a model looks up; two processes understand each other's rows if their plans have equal hashes.

    >>> from monolith.embedding import Segment, SgdOptimizer
    >>> from monolith.model.plan.planned_table import PlannedSlice
    >>> rows = PlannedTable("uid", (PlannedSlice("vec", Segment(8, SgdOptimizer(0.1))),))
    >>> plan = LookupPlan((PlannedFeature("uid", "uid", ("vec",)),), (rows,))
    >>> plan.tables()["uid"].dim, plan.entries
    (8, (('uid', 'vec', 8),))
    """

    features: tuple[PlannedFeature, ...]
    """In the order in which the model first asked for them."""

    planned_tables: tuple[PlannedTable, ...]
    """In the order in which features first needed them."""

    @cached_property
    def places(self) -> dict[SliceKey, tuple[int, int]]:
        """By (feature, slice), in order: where the slice begins in the rows of the feature's table, and its width."""
        found: dict[SliceKey, tuple[int, int]] = {}
        slices = {table.name: table.slice_places() for table in self.planned_tables}
        for feature in self.features:
            found.update({(feature.name, name): slices[feature.table][name] for name in feature.slices})
        return found

    @property
    def entries(self) -> tuple[tuple[str, str, int], ...]:
        """Every (feature, slice, dim), in order."""
        return tuple((feature, name, dim) for (feature, name), (_, dim) in self.places.items())

    def slice_shape(self, key: SliceKey) -> tuple[int, ...]:
        """Return the shape, per event, of what the model reads of a (feature, slice)."""
        length = next(feature.max_seq_length for feature in self.features if feature.name == key[0])
        dim = self.places[key][1]
        return (length, dim) if length else (dim,)

    def tables(self) -> dict[str, TableConfig]:
        """Return the tables by name, each with a segment per slice."""
        return {table.name: table.table_config() for table in self.planned_tables}

    @cached_property
    def canonical_json(self) -> str:
        """The plan as text; equal plans give equal bytes."""
        values = {
            "format": PLAN_FORMAT,
            "features": [feature.to_dict() for feature in self.features],
            "tables": [table.to_dict() for table in self.planned_tables],
        }
        return _canonical(values)

    @cached_property
    def hash(self) -> int:
        """The plan's 64-bit number: the first 8 bytes, little-endian, of the BLAKE2b digest of its canonical JSON.

        How gradients are clipped is left out: rows mean the same, and a run that met a huge gradient goes on with it.
        """
        if _CLIPPING not in self.canonical_json:
            return hash64(self.canonical_json)
        values = json.loads(self.canonical_json)
        for one in (one for table in values["tables"] for one in table["slices"]):
            one["segment"].get("optConfig", {}).pop(_CLIPPING, None)
        return hash64(_canonical(values))

    def renamed(self, older: Mapping[str, Sequence[str]], features: Container[str]) -> "LookupPlan":
        """Return this saved plan with the names of today.

        A table gets a new name if `older`, by today's name, has the saved one. So does the feature of the same name,
        unless today's `features` have it.
        """
        saved = {table.name for table in self.planned_tables}
        found = {name: [one for one in names if one in saved and one not in older] for name, names in older.items()}
        new = {names[0]: name for name, names in found.items() if names and name not in saved}

        def renamed_feature(one: PlannedFeature) -> PlannedFeature:
            name = one.name if one.name in features else new.get(one.name, one.name)
            return replace(one, name=name, table=new.get(one.table, one.table))

        def renamed_table(one: PlannedTable) -> PlannedTable:
            return replace(one, name=new[one.name], extra_restore_names=(one.name,)) if one.name in new else one

        return LookupPlan(tuple(map(renamed_feature, self.features)), tuple(map(renamed_table, self.planned_tables)))

    def to_json(self) -> str:
        """Return the plan as canonical JSON."""
        return self.canonical_json

    @staticmethod
    def from_json(text: str) -> "LookupPlan":
        """Return the plan that `to_json` wrote; anything else is a ValueError."""
        try:
            values = json.loads(text)
            if values["format"] != PLAN_FORMAT:
                raise ValueError(f"its format is {values['format']}, this version reads {PLAN_FORMAT}")
            plan = LookupPlan(
                tuple(PlannedFeature.from_dict(one) for one in values["features"]),
                tuple(PlannedTable.from_dict(one) for one in values["tables"]),
            )
            _ = plan.places  # a feature whose table or slice is not there is found now
            return plan
        except (KeyError, TypeError, ValueError, ParseError) as error:
            raise ValueError(f"this is no lookup plan ({type(error).__name__}: {error})") from error


def _canonical(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def plan_differences(ours: LookupPlan, theirs: LookupPlan) -> list[str]:
    """Return what differs, a line each, as "what: theirs there, ours here"; nothing for equal plans."""
    here, there = (_flatten("", _as_json(plan)) for plan in (ours, theirs))
    lines = [
        f"{place}: {there.get(place, 'absent')} there, {here.get(place, 'absent')} here"
        for place in dict.fromkeys([*there, *here])
        if there.get(place) != here.get(place)
    ]
    if not lines and ours.hash != theirs.hash:
        lines = [f"order of lookups: {list(theirs.entries)} there, {list(ours.entries)} here"]
    return lines


def _as_json(plan: LookupPlan) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(plan.canonical_json)
    for feature in values["features"]:
        feature["slices"] = ", ".join(feature["slices"])
    return {"features": values["features"], "tables": values["tables"]}


def _flatten(place: str, value: Any) -> dict[str, Any]:
    """Return every number and word of a JSON value by where it stands; named list items stand under their name."""
    if isinstance(value, dict):
        parts = {f"{place}.{key}" if place else key: part for key, part in value.items() if key != "name"}
    elif isinstance(value, list):
        parts = {f"{place}[{part['name']}]" if place else str(part["name"]): part for part in value}
    else:
        return {place: value}
    return {key: leaf for inner, part in parts.items() for key, leaf in _flatten(inner, part).items()}
