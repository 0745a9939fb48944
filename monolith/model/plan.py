"""The lookup plan: every slice of every feature that a model asks for, frozen."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.protobuf.json_format import ParseError

from monolith.embedding import TableConfig
from monolith.model.planned_feature import PlannedFeature, hash64

PLAN_FORMAT = 1
"""Version of the JSON form."""


@dataclass(frozen=True)
class LookupPlan:
    """What a model looks up; two processes understand each other's rows if their plans have equal hashes.

    >>> from monolith.embedding import Segment, SgdOptimizer
    >>> from monolith.model.planned_feature import PlannedSlice
    >>> user = PlannedFeature("uid", (PlannedSlice("vec", Segment(8, SgdOptimizer(0.1))),))
    >>> plan = LookupPlan((user,))
    >>> plan.tables()["uid"].dim, plan.entries
    (8, (('uid', 'vec', 8),))
    """

    features: tuple[PlannedFeature, ...]
    """In the order in which the model first asked for them."""

    @property
    def entries(self) -> tuple[tuple[str, str, int], ...]:
        """Every (feature, slice, dim), in order."""
        return tuple((one.name, part.name, part.segment.dim) for one in self.features for part in one.slices)

    def tables(self) -> dict[str, TableConfig]:
        """Return one table per feature, with a segment per slice."""
        return {feature.name: feature.table_config() for feature in self.features}

    @cached_property
    def canonical_json(self) -> str:
        """The plan as text; equal plans give equal bytes."""
        values = {"format": PLAN_FORMAT, "features": [feature.to_dict() for feature in self.features]}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @cached_property
    def hash(self) -> int:
        """The plan's 64-bit number: the first 8 bytes, little-endian, of the BLAKE2b digest of its canonical JSON."""
        return hash64(self.canonical_json)

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
            return LookupPlan(tuple(PlannedFeature.from_dict(one) for one in values["features"]))
        except (KeyError, TypeError, ValueError, ParseError) as error:
            raise ValueError(f"this is no lookup plan ({type(error).__name__}: {error})") from error


def plan_differences(ours: LookupPlan, theirs: LookupPlan) -> list[str]:
    """Return what differs, a line each, as "what: theirs there, ours here"; nothing for equal plans."""
    here, there = (_flatten("", json.loads(plan.canonical_json)["features"]) for plan in (ours, theirs))
    lines = [
        f"{place}: {there.get(place, 'absent')} there, {here.get(place, 'absent')} here"
        for place in dict.fromkeys([*there, *here])
        if there.get(place) != here.get(place)
    ]
    if not lines and ours.hash != theirs.hash:
        lines = [f"order of lookups: {list(theirs.entries)} there, {list(ours.entries)} here"]
    return lines


def _flatten(place: str, value: Any) -> dict[str, Any]:
    """Return every number and word of a JSON value by where it stands; named list items stand under their name."""
    if isinstance(value, dict):
        parts = {f"{place}.{key}" if place else key: part for key, part in value.items() if key != "name"}
    elif isinstance(value, list):
        parts = {f"{place}[{part['name']}]" if place else str(part["name"]): part for part in value}
    else:
        return {place: value}
    return {key: leaf for inner, part in parts.items() for key, leaf in _flatten(inner, part).items()}
