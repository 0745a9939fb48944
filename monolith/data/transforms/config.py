"""Transforms as a `TransformConfig` message, and back."""

from collections.abc import Sequence

from monolith.data.transforms.filters.fid import FilterByAction, FilterByFid
from monolith.data.transforms.filters.label import FilterByLabel
from monolith.data.transforms.filters.value import FilterByValue, Operand
from monolith.data.transforms.labels.add_label import AddLabel
from monolith.data.transforms.step import Compose, Filter, LogicalOr, Transform
from monolith.features.fid import as_unsigned
from monolith.protos.transform_config_pb2 import (
    AddLabelConfig,
    BasicTransformConfig,
    FilterByValueConfig,
    TransformConfig,
)


def as_proto(transform: Transform) -> TransformConfig:
    """Return the message of a transform; ValueError if it is one, or has settings, that the message cannot carry."""
    message = TransformConfig()
    for step in transform.transforms if isinstance(transform, Compose) else (transform,):
        if isinstance(step, Compose):
            message.configs.extend(as_proto(step).configs)
        elif isinstance(step, LogicalOr):
            both = message.configs.add().logical_or_config
            both.x.CopyFrom(_basic(step.x))
            both.y.CopyFrom(_basic(step.y))
        else:
            message.configs.add().basic_config.CopyFrom(_basic(step))
    return message


def from_proto(message: TransformConfig, *, seed: int = 0) -> Compose:
    """Return the transforms of a message, in order.

    Args:
        message: What `as_proto` returned, here or in the original.
        seed: Seed of the random draws, which a message does not carry.
    """
    steps: list[Transform] = []
    for place, config in enumerate(message.configs):
        kind = config.WhichOneof("type")
        if kind == "basic_config":
            steps.append(_from_basic(config.basic_config, seed))
        elif kind == "logical_or_config":
            x, y = (_from_basic(side, seed) for side in (config.logical_or_config.x, config.logical_or_config.y))
            if not isinstance(x, Filter) or not isinstance(y, Filter):
                raise ValueError(f"transform {place} of the message: both sides of a logical or must be filters")
            steps.append(LogicalOr(x, y))
        else:
            raise ValueError(f"transform {place} of the message has no type")
    return Compose(steps)


def _basic(step: Transform) -> BasicTransformConfig:
    message = BasicTransformConfig()
    if isinstance(step, FilterByFid):
        _fill_fids(message, step)
    elif isinstance(step, FilterByAction):
        message.filter_by_action.has_actions.extend(step.has_actions)
    elif isinstance(step, FilterByLabel):
        if step.filter_equal:
            raise ValueError("as_proto: the message has no place for FilterByLabel's filter_equal=True")
        message.filter_by_label.thresholds.extend(step.thresholds)
    elif isinstance(step, AddLabel):
        for task in step.tasks:
            message.add_label.task_label_configs.add(
                pos_actions=task.pos_actions, neg_actions=task.neg_actions, sample_rate=task.sample_rate
            )
        message.add_label.negative_value = step.negative_value
        message.add_label.new_sample_rate = step.new_sample_rate
    elif isinstance(step, FilterByValue):
        _fill_value(message.filter_by_value, step)
    else:
        raise ValueError(
            "as_proto: a message carries FilterByFid, FilterByAction, FilterByLabel, FilterByValue, AddLabel and "
            f"LogicalOr, not {step!r}"
        )
    return message


def _fill_fids(message: BasicTransformConfig, step: FilterByFid) -> None:
    if step != FilterByFid(step.has_fids, step.filter_fids, step.select_fids):
        raise ValueError(f"as_proto: a message carries has_fids, filter_fids and select_fids only, got {step!r}")
    message.filter_by_fid.SetInParent()
    for name in ("has_fids", "filter_fids", "select_fids"):
        getattr(message.filter_by_fid, name).extend(as_unsigned(fid) for fid in getattr(step, name) or ())


def _fill_value(message: FilterByValueConfig, step: FilterByValue) -> None:
    message.field_name, message.op, message.keep_empty = step.field_name, step.op, step.keep_empty
    if step.operand_filepath:
        message.operand_filepath = step.operand_filepath
        return
    for operand in step.operands:
        if isinstance(operand, int):
            message.int_operand.append(operand)
        elif isinstance(operand, float):
            message.float_operand.append(operand)
        else:
            message.string_operand.append(operand if isinstance(operand, str) else operand.decode())


def _from_basic(message: BasicTransformConfig, seed: int) -> Transform:
    kind = message.WhichOneof("type")
    if kind == "filter_by_fid":
        fids = message.filter_by_fid
        return FilterByFid(list(fids.has_fids), list(fids.filter_fids), list(fids.select_fids))
    if kind == "filter_by_action":
        return FilterByAction(list(message.filter_by_action.has_actions))
    if kind == "filter_by_label":
        return FilterByLabel(list(message.filter_by_label.thresholds))
    if kind == "add_label":
        return _add_label(message.add_label, seed)
    if kind == "filter_by_value":
        return _filter_by_value(message.filter_by_value)
    raise ValueError("a basic transform of the message has no type")


def _add_label(message: AddLabelConfig, seed: int) -> AddLabel:
    tasks = [
        f"{_listed(task.pos_actions)}:{_listed(task.neg_actions)}:{task.sample_rate!r}"
        for task in message.task_label_configs
    ]
    return AddLabel(";".join(tasks), message.negative_value, message.new_sample_rate, seed)


def _filter_by_value(message: FilterByValueConfig) -> FilterByValue:
    if message.operand_filepath:
        return FilterByValue(
            message.field_name, message.op, None, message.keep_empty, operand_filepath=message.operand_filepath
        )
    operands: list[Operand] = [*message.float_operand, *message.int_operand, *message.string_operand]
    return FilterByValue(message.field_name, message.op, operands, message.keep_empty)


def _listed(actions: Sequence[int]) -> str:
    return ",".join(str(action) for action in actions)
