"""The values that travel between stages: ragged tensors, and reshaping of many tensors at once."""

from monolith.tensors.ragged import Ragged, fused_value_rowids, gen_seq_mask, normalize_merged_split
from monolith.tensors.static_reshape import StaticReshapeNBuilder, static_reshape

__all__ = [
    "Ragged",
    "StaticReshapeNBuilder",
    "fused_value_rowids",
    "gen_seq_mask",
    "normalize_merged_split",
    "static_reshape",
]
