# ruff: noqa
# fmt: off
# mypy: ignore-errors
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskLabelConf(_message.Message):
    __slots__ = ("pos_actions", "neg_actions", "sample_rate")
    POS_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    NEG_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_FIELD_NUMBER: _ClassVar[int]
    pos_actions: _containers.RepeatedScalarFieldContainer[int]
    neg_actions: _containers.RepeatedScalarFieldContainer[int]
    sample_rate: float
    def __init__(self, pos_actions: _Optional[_Iterable[int]] = ..., neg_actions: _Optional[_Iterable[int]] = ..., sample_rate: _Optional[float] = ...) -> None: ...

class LabelConf(_message.Message):
    __slots__ = ("conf",)
    CONF_FIELD_NUMBER: _ClassVar[int]
    conf: _containers.RepeatedCompositeFieldContainer[TaskLabelConf]
    def __init__(self, conf: _Optional[_Iterable[_Union[TaskLabelConf, _Mapping]]] = ...) -> None: ...

class TFRecordFeatureDescription(_message.Message):
    __slots__ = ("sparse_features", "dense_features", "label", "instance_weight")
    class SparseFeaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SPARSE_FEATURES_FIELD_NUMBER: _ClassVar[int]
    DENSE_FEATURES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    sparse_features: _containers.ScalarMap[str, int]
    dense_features: _containers.RepeatedScalarFieldContainer[str]
    label: str
    instance_weight: str
    def __init__(self, sparse_features: _Optional[_Mapping[str, int]] = ..., dense_features: _Optional[_Iterable[str]] = ..., label: _Optional[str] = ..., instance_weight: _Optional[str] = ...) -> None: ...
