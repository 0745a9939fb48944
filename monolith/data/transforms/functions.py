"""The transforms as plain functions, under the names of the original; a filter returns the mask of what to keep."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.transforms.add_action import AddAction
from monolith.data.transforms.columns import describe, get_column
from monolith.data.transforms.filters.fid import FilterByFid
from monolith.data.transforms.filters.label import FilterByLabel
from monolith.data.transforms.filters.sampling import NegativeSample, SpecialStrategy
from monolith.data.transforms.filters.value import FilterByValue, Operand
from monolith.data.transforms.ids.slots import SwitchSlot
from monolith.data.transforms.labels.add_label import AddLabel
from monolith.data.transforms.labels.fields import FillMultiRankOutput, UseFieldAsLabel
from monolith.data.transforms.labels.heads import MultiLabelGen, ScatterLabel
from monolith.data.transforms.labels.scaling import LabelNormalization, LabelUpperBound
from monolith.tensors import Ragged

_FIELD_TYPES = {"int64": torch.int64, "float": torch.float32, "double": torch.float32, "bytes": torch.uint8}


def filter_by_fids(
    batch: Batch,
    filter_fids: Sequence[int] | None = None,
    has_fids: Sequence[int] | None = None,
    select_fids: Sequence[int] | None = None,
    has_actions: Sequence[int] | None = None,
    req_time_min: int = 0,
    select_slots: Sequence[int] | None = None,
) -> Tensor:
    """Return which events meet all conditions; see `FilterByFid`."""
    return FilterByFid(has_fids, filter_fids, select_fids, has_actions, req_time_min, select_slots).mask(batch)


def filter_by_value(
    batch: Batch,
    field_name: str,
    op: str,
    operand: Operand | Sequence[Operand] | None = None,
    keep_empty: bool = False,
    operand_filepath: str | None = None,
) -> Tensor:
    """Return which events have a value that the condition holds for; see `FilterByValue`."""
    return FilterByValue(field_name, op, operand, keep_empty, operand_filepath).mask(batch)


def filter_by_feature_value(
    batch: Batch,
    field_name: str,
    op: str,
    operand: Operand | Sequence[Operand] | None,
    field_type: Literal["int64", "float", "double", "bytes"],
    keep_empty: bool = False,
    operand_filepath: str | None = None,
) -> Tensor:
    """Return the same as `filter_by_value`, for a feature whose type is said and checked."""
    column = get_column(batch, field_name, "filter_by_feature_value")
    if field_type not in _FIELD_TYPES:
        raise ValueError(f"field_type must be one of {', '.join(_FIELD_TYPES)}, got {field_type!r}")
    values = column.values if isinstance(column, Ragged) else column
    if values.dtype != _FIELD_TYPES[field_type]:
        raise TypeError(f"filter_by_feature_value: {field_name!r} is {describe(column)}, field_type is {field_type!r}")
    return filter_by_value(batch, field_name, op, operand, keep_empty, operand_filepath)


def filter_by_label(batch: Batch, label_threshold: Sequence[float], filter_equal: bool = False) -> Tensor:
    """Return which events have a label above its threshold; see `FilterByLabel`."""
    return FilterByLabel(label_threshold, filter_equal).mask(batch)


def negative_sample(
    batch: Batch,
    drop_rate: float,
    label_index: int = 0,
    threshold: float = 0.0,
    action_priority: str | None = None,
    per_action_drop_rate: str | None = None,
    seed: int = 0,
) -> Tensor:
    """Return which events stay when a share of the negatives goes; see `NegativeSample`."""
    return NegativeSample(drop_rate, label_index, threshold, action_priority, per_action_drop_rate, seed).mask(batch)


def special_strategy(
    batch: Batch,
    strategy_list: Sequence[int],
    strategy_conf: str = "",
    keep_empty_strategy: bool = True,
    seed: int = 0,
) -> Batch:
    """Return the events that their strategy keeps, with its label; see `SpecialStrategy`."""
    return SpecialStrategy(strategy_list, strategy_conf, keep_empty_strategy, seed)(batch)


def add_action(
    batch: Batch, field_name: str, op: str, operand: Operand | Sequence[Operand], action: int | Sequence[int]
) -> Batch:
    """Return the events, with an action more where the condition holds."""
    return AddAction(field_name, op, operand, action)(batch)


def add_label(
    batch: Batch, config: str, negative_value: float = 0.0, new_sample_rate: float = 1.0, seed: int = 0
) -> Batch:
    """Return the events with a label more per task; see `AddLabel`."""
    return AddLabel(config, negative_value, new_sample_rate, seed)(batch)


def scatter_label(batch: Batch, config: str) -> Batch:
    """Return the events with their label moved to the task of their channel."""
    return ScatterLabel(config)(batch)


def multi_label_gen(
    batch: Batch,
    head_to_index: Mapping[str, int] | str,
    head_field: str = "chnid",
    pos_actions: Sequence[int] | None = None,
    neg_actions: Sequence[int] | None = None,
    use_origin_label: bool = False,
    pos_label: float = 1.0,
    neg_label: float = 0.0,
    action_priority: str | None = None,
    task_num: int | None = None,
) -> Batch:
    """Return the events with one label per task; see `MultiLabelGen`."""
    return MultiLabelGen(
        head_to_index,
        head_field,
        pos_actions,
        neg_actions,
        use_origin_label,
        pos_label,
        neg_label,
        action_priority,
        task_num,
    )(batch)


def label_upper_bound(batch: Batch, label_upper_bounds: Sequence[float]) -> Batch:
    """Return the events with no label above its bound."""
    return LabelUpperBound(label_upper_bounds)(batch)


def label_normalization(batch: Batch, norm_methods: Sequence[str], norm_values: Sequence[float]) -> Batch:
    """Return the events with their labels rescaled; see `LabelNormalization`."""
    return LabelNormalization(norm_methods, norm_values)(batch)


def use_field_as_label(
    batch: Batch, field_name: str, overwrite_invalid_value: bool = False, label_threshold: float = 7200.0
) -> Batch:
    """Return the events with labels raised to a field's value; see `UseFieldAsLabel`."""
    return UseFieldAsLabel(field_name, overwrite_invalid_value, label_threshold)(batch)


def fill_multi_rank_output(
    batch: Batch,
    enable_draw_as_rank: bool = False,
    enable_chnid_as_rank: bool = False,
    enable_lineid_rank_as_rank: bool = False,
    rank_num: int = 18,
) -> Batch:
    """Return the events with a rank as one label more."""
    return FillMultiRankOutput(enable_draw_as_rank, enable_chnid_as_rank, enable_lineid_rank_as_rank, rank_num)(batch)


def switch_slot_batch(batch: Batch, features: Mapping[str, tuple[bool, int]], suffix: str = "share") -> Batch:
    """Return the events with ids of some columns moved to other slots; see `SwitchSlot`."""
    return SwitchSlot(features, suffix)(batch)
