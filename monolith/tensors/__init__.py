"""The values that travel between stages: ragged and nested tensors, packing and reshaping of many tensors at once."""

from monolith.tensors.nested_tensors import NestedTensors, map_leaves
from monolith.tensors.packing import (
    maybe_squeeze_3d_tensor,
    merge_dicts,
    pack_tensors,
    pack_typed_keyed_tensors,
    split_tensors_with_type,
    unpack_packed_tensors,
    unpack_tensors,
)
from monolith.tensors.ragged import Ragged, fused_value_rowids, gen_seq_mask, normalize_merged_split
from monolith.tensors.static_reshape import StaticReshapeNBuilder, static_reshape

__all__ = [
    "NestedTensors",
    "Ragged",
    "StaticReshapeNBuilder",
    "fused_value_rowids",
    "gen_seq_mask",
    "map_leaves",
    "maybe_squeeze_3d_tensor",
    "merge_dicts",
    "normalize_merged_split",
    "pack_tensors",
    "pack_typed_keyed_tensors",
    "split_tensors_with_type",
    "static_reshape",
    "unpack_packed_tensors",
    "unpack_tensors",
]
