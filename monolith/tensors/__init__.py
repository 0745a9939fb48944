"""The values that travel between stages: ragged tensors and nested structures."""

from monolith.tensors.leaves import map_leaves
from monolith.tensors.ragged import Ragged, gen_seq_mask, normalize_merged_split

__all__ = ["Ragged", "gen_seq_mask", "map_leaves", "normalize_merged_split"]
