"""Transforms: steps on the columns of a batch. They filter events, make labels and change ids."""

from monolith.data.parse.column_request import INVALID_LABEL
from monolith.data.transforms.add_action import AddAction
from monolith.data.transforms.config import as_proto, from_proto
from monolith.data.transforms.filters.fid import FilterByAction, FilterByFid
from monolith.data.transforms.filters.label import FilterByLabel
from monolith.data.transforms.filters.sampling import NegativeSample, SpecialStrategy
from monolith.data.transforms.filters.value import FilterByValue
from monolith.data.transforms.ids.crossing import FeatureCombine, feature_combine
from monolith.data.transforms.ids.mapping import GenFidMask, MapId, gen_fid_mask, map_id
from monolith.data.transforms.ids.slots import SwitchSlot, switch_slot
from monolith.data.transforms.instance_reweight import InstanceReweight
from monolith.data.transforms.labels.add_label import AddLabel
from monolith.data.transforms.labels.column import POSITIVE_LABEL
from monolith.data.transforms.labels.fields import FillMultiRankOutput, UseFieldAsLabel
from monolith.data.transforms.labels.heads import MultiLabelGen, ScatterLabel
from monolith.data.transforms.labels.scaling import LabelNormalization, LabelUpperBound
from monolith.data.transforms.step import Compose, Filter, LogicalOr, Transform, schema_after

__all__ = [
    "INVALID_LABEL",
    "POSITIVE_LABEL",
    "AddAction",
    "AddLabel",
    "Compose",
    "FeatureCombine",
    "FillMultiRankOutput",
    "Filter",
    "FilterByAction",
    "FilterByFid",
    "FilterByLabel",
    "FilterByValue",
    "GenFidMask",
    "InstanceReweight",
    "LabelNormalization",
    "LabelUpperBound",
    "LogicalOr",
    "MapId",
    "MultiLabelGen",
    "NegativeSample",
    "ScatterLabel",
    "SpecialStrategy",
    "SwitchSlot",
    "Transform",
    "UseFieldAsLabel",
    "as_proto",
    "feature_combine",
    "from_proto",
    "gen_fid_mask",
    "map_id",
    "schema_after",
    "switch_slot",
]
