"""Layouts in one step: the ids of all features sharded, their rows pooled and joined into the tensors of a model."""

from monolith.embedding.layout.fused_layout import FusedLayout
from monolith.embedding.layout.plan import LayoutPlan
from monolith.embedding.layout.sharded_fids import ShardedFids

__all__ = ["FusedLayout", "LayoutPlan", "ShardedFids"]
