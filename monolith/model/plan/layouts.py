"""Layouts: which slices a model reads alone, and which it reads joined into one tensor."""

from collections.abc import Sequence
from dataclasses import dataclass

from monolith.features.layouts import FeatMeta, Joining, LayoutMeta, SlicePooling, TableMeta, make_feature_configs
from monolith.model.plan.feature_column import CombinerName
from monolith.model.plan.feature_groups import OutType
from monolith.model.plan.lookup_plan import LookupPlan
from monolith.model.plan.planned_table import PlannedFeature
from monolith.model.plan.slices import PulledKey, SliceKey, joined_key
from monolith.protos.example_pb2 import FeatureConfigs

ALONE = "slices"
"""Name of the layout of slices that are read alone; the names of others have a slash."""

_JOININGS: dict[OutType, Joining] = {"concat": "CONCAT", "stack": "STACK", "add_n": "ADDN", "addn": "ADDN"}
_POOLINGS: dict[CombinerName, SlicePooling] = {"reduce_sum": "sum", "reduce_mean": "mean", "first_n": "first_n"}


@dataclass(frozen=True, slots=True)
class JoinedSlices:
    """Slices that become one tensor."""

    slices: tuple[SliceKey, ...]
    """In the order of the tensor."""

    out_type: OutType
    """How they are joined."""

    @property
    def key(self) -> PulledKey:
        """Where a batch has the tensor."""
        return joined_key(self.slices, self.out_type)


@dataclass(frozen=True, slots=True)
class Layouts:
    """Every tensor that a model reads of its rows, found by the dry run."""

    alone: tuple[SliceKey, ...]
    """Slices that it reads as they are."""

    joined: tuple[JoinedSlices, ...]
    """Slices that it reads together."""

    def keys(self) -> dict[str, tuple[PulledKey, ...]]:
        """Return, by the name of the layout, where its tensors stand in a batch."""
        found: dict[str, tuple[PulledKey, ...]] = {"/".join(one.key): (one.key,) for one in self.joined}
        return {**found, ALONE: self.alone} if self.alone else found

    def feature_configs(self, plan: LookupPlan) -> FeatureConfigs:
        """Return what the fused operation needs to know; a combiner that it does not have is a ValueError."""
        tables = {
            table.name: TableMeta(name=table.name, slices=tuple((one.name, one.segment.dim) for one in table.slices))
            for table in plan.planned_tables
        }
        features = {one.name: _meta(slot, one, tables[one.table]) for slot, one in enumerate(plan.features)}
        layouts = {
            "/".join(one.key): LayoutMeta(joining=_JOININGS[one.out_type], slices=one.slices) for one in self.joined
        }
        if self.alone:
            layouts[ALONE] = LayoutMeta(joining="NONE", slices=self.alone)
        return make_feature_configs(features, layouts)


def can_be_joined(shapes: Sequence[tuple[int, ...]], out_type: OutType) -> bool:
    """Return whether slices of these shapes, [events, dim] or [events, length, dim], can be one fused layout.

    >>> can_be_joined([(2, 8), (2, 4)], "concat"), can_be_joined([(2, 5, 8), (2, 5, 8)], "concat")
    (True, False)
    """
    same_width = len({shape[-1] for shape in shapes}) == 1
    return out_type in _JOININGS and all(len(shape) == 2 for shape in shapes) and (same_width or out_type == "concat")


def _meta(slot: int, feature: PlannedFeature, table: TableMeta) -> FeatMeta:
    pooling = _POOLINGS.get(feature.combiner)
    if pooling is None:
        raise ValueError(
            f"pooling_type error! Feature {feature.name!r} has combiner {feature.combiner!r}, and the fused layout has "
            f"{', '.join(_POOLINGS)} only; choose one of them, or leave enable_fused_layout off"
        )
    return FeatMeta(slot=slot, table=table, pooling=pooling, max_sequence_length=feature.max_seq_length)
