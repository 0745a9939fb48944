# ruff: noqa
# fmt: off
# mypy: ignore-errors
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FilterByFidConfig(_message.Message):
    __slots__ = ("has_fids", "filter_fids", "select_fids")
    HAS_FIDS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIDS_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIDS_FIELD_NUMBER: _ClassVar[int]
    has_fids: _containers.RepeatedScalarFieldContainer[int]
    filter_fids: _containers.RepeatedScalarFieldContainer[int]
    select_fids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, has_fids: _Optional[_Iterable[int]] = ..., filter_fids: _Optional[_Iterable[int]] = ..., select_fids: _Optional[_Iterable[int]] = ...) -> None: ...

class FilterByActionConfig(_message.Message):
    __slots__ = ("has_actions",)
    HAS_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    has_actions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, has_actions: _Optional[_Iterable[int]] = ...) -> None: ...

class FilterByLabelConfig(_message.Message):
    __slots__ = ("thresholds",)
    THRESHOLDS_FIELD_NUMBER: _ClassVar[int]
    thresholds: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, thresholds: _Optional[_Iterable[float]] = ...) -> None: ...

class AddLabelConfig(_message.Message):
    __slots__ = ("task_label_configs", "negative_value", "new_sample_rate")
    class TaskLabelConfig(_message.Message):
        __slots__ = ("pos_actions", "neg_actions", "sample_rate")
        POS_ACTIONS_FIELD_NUMBER: _ClassVar[int]
        NEG_ACTIONS_FIELD_NUMBER: _ClassVar[int]
        SAMPLE_RATE_FIELD_NUMBER: _ClassVar[int]
        pos_actions: _containers.RepeatedScalarFieldContainer[int]
        neg_actions: _containers.RepeatedScalarFieldContainer[int]
        sample_rate: float
        def __init__(self, pos_actions: _Optional[_Iterable[int]] = ..., neg_actions: _Optional[_Iterable[int]] = ..., sample_rate: _Optional[float] = ...) -> None: ...
    TASK_LABEL_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_VALUE_FIELD_NUMBER: _ClassVar[int]
    NEW_SAMPLE_RATE_FIELD_NUMBER: _ClassVar[int]
    task_label_configs: _containers.RepeatedCompositeFieldContainer[AddLabelConfig.TaskLabelConfig]
    negative_value: float
    new_sample_rate: float
    def __init__(self, task_label_configs: _Optional[_Iterable[_Union[AddLabelConfig.TaskLabelConfig, _Mapping]]] = ..., negative_value: _Optional[float] = ..., new_sample_rate: _Optional[float] = ...) -> None: ...

class FilterByValueConfig(_message.Message):
    __slots__ = ("field_name", "op", "float_operand", "int_operand", "string_operand", "keep_empty", "operand_filepath")
    FIELD_NAME_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    FLOAT_OPERAND_FIELD_NUMBER: _ClassVar[int]
    INT_OPERAND_FIELD_NUMBER: _ClassVar[int]
    STRING_OPERAND_FIELD_NUMBER: _ClassVar[int]
    KEEP_EMPTY_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FILEPATH_FIELD_NUMBER: _ClassVar[int]
    field_name: str
    op: str
    float_operand: _containers.RepeatedScalarFieldContainer[float]
    int_operand: _containers.RepeatedScalarFieldContainer[int]
    string_operand: _containers.RepeatedScalarFieldContainer[str]
    keep_empty: bool
    operand_filepath: str
    def __init__(self, field_name: _Optional[str] = ..., op: _Optional[str] = ..., float_operand: _Optional[_Iterable[float]] = ..., int_operand: _Optional[_Iterable[int]] = ..., string_operand: _Optional[_Iterable[str]] = ..., keep_empty: _Optional[bool] = ..., operand_filepath: _Optional[str] = ...) -> None: ...

class BasicTransformConfig(_message.Message):
    __slots__ = ("filter_by_fid", "filter_by_action", "filter_by_label", "add_label", "filter_by_value")
    FILTER_BY_FID_FIELD_NUMBER: _ClassVar[int]
    FILTER_BY_ACTION_FIELD_NUMBER: _ClassVar[int]
    FILTER_BY_LABEL_FIELD_NUMBER: _ClassVar[int]
    ADD_LABEL_FIELD_NUMBER: _ClassVar[int]
    FILTER_BY_VALUE_FIELD_NUMBER: _ClassVar[int]
    filter_by_fid: FilterByFidConfig
    filter_by_action: FilterByActionConfig
    filter_by_label: FilterByLabelConfig
    add_label: AddLabelConfig
    filter_by_value: FilterByValueConfig
    def __init__(self, filter_by_fid: _Optional[_Union[FilterByFidConfig, _Mapping]] = ..., filter_by_action: _Optional[_Union[FilterByActionConfig, _Mapping]] = ..., filter_by_label: _Optional[_Union[FilterByLabelConfig, _Mapping]] = ..., add_label: _Optional[_Union[AddLabelConfig, _Mapping]] = ..., filter_by_value: _Optional[_Union[FilterByValueConfig, _Mapping]] = ...) -> None: ...

class LogicalOrTransformConfig(_message.Message):
    __slots__ = ("x", "y")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    x: BasicTransformConfig
    y: BasicTransformConfig
    def __init__(self, x: _Optional[_Union[BasicTransformConfig, _Mapping]] = ..., y: _Optional[_Union[BasicTransformConfig, _Mapping]] = ...) -> None: ...

class TransformConfig(_message.Message):
    __slots__ = ("configs",)
    class OneTransformConfig(_message.Message):
        __slots__ = ("basic_config", "logical_or_config")
        BASIC_CONFIG_FIELD_NUMBER: _ClassVar[int]
        LOGICAL_OR_CONFIG_FIELD_NUMBER: _ClassVar[int]
        basic_config: BasicTransformConfig
        logical_or_config: LogicalOrTransformConfig
        def __init__(self, basic_config: _Optional[_Union[BasicTransformConfig, _Mapping]] = ..., logical_or_config: _Optional[_Union[LogicalOrTransformConfig, _Mapping]] = ...) -> None: ...
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    configs: _containers.RepeatedCompositeFieldContainer[TransformConfig.OneTransformConfig]
    def __init__(self, configs: _Optional[_Iterable[_Union[TransformConfig.OneTransformConfig, _Mapping]]] = ...) -> None: ...
