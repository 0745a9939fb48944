"""Columns become ids: fids and their slots, the hash of strings, feature lists, layouts."""

from monolith.features.feature_list import FeatureList
from monolith.features.feature_list_entries import Cache, Feature, Feed
from monolith.features.fid import (
    convert_fid_v1_to_v2,
    extract_fid,
    make_fid_v1,
    make_fid_v2,
    slot_of_v1,
    slot_of_v2,
    switch_slot_v1,
    switch_slot_v2,
)
from monolith.features.slots import (
    SlotMap,
    enable_tob_env,
    get_slot_feature_name,
    get_slot_from_feature_name,
    register_slots,
)
from monolith.features.string_hash import hash_byte_rows, hash_bytes, hash_values, ids_of_texts
from monolith.features.used_features import (
    UsedFeatures,
    add_feature,
    add_feature_by_fids,
    get_valid_features,
    is_example_batch,
    use_example_batch,
)

__all__ = [
    "Cache",
    "Feature",
    "FeatureList",
    "Feed",
    "SlotMap",
    "UsedFeatures",
    "add_feature",
    "add_feature_by_fids",
    "convert_fid_v1_to_v2",
    "enable_tob_env",
    "extract_fid",
    "get_slot_feature_name",
    "get_slot_from_feature_name",
    "get_valid_features",
    "hash_byte_rows",
    "hash_bytes",
    "hash_values",
    "ids_of_texts",
    "is_example_batch",
    "make_fid_v1",
    "make_fid_v2",
    "register_slots",
    "slot_of_v1",
    "slot_of_v2",
    "switch_slot_v1",
    "switch_slot_v2",
    "use_example_batch",
]
