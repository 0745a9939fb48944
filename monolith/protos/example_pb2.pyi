# ruff: noqa
# fmt: off
# mypy: ignore-errors
from monolith.protos import line_id_pb2 as _line_id_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FeatureListType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INDIVIDUAL: _ClassVar[FeatureListType]
    SHARED: _ClassVar[FeatureListType]

class PoolingType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUM: _ClassVar[PoolingType]
    MEAN: _ClassVar[PoolingType]
    FIRSTN: _ClassVar[PoolingType]

class OutType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONCAT: _ClassVar[OutType]
    STACK: _ClassVar[OutType]
    ADDN: _ClassVar[OutType]
    NONE: _ClassVar[OutType]
INDIVIDUAL: FeatureListType
SHARED: FeatureListType
SUM: PoolingType
MEAN: PoolingType
FIRSTN: PoolingType
CONCAT: OutType
STACK: OutType
ADDN: OutType
NONE: OutType

class FidList(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, value: _Optional[_Iterable[int]] = ...) -> None: ...

class FloatList(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, value: _Optional[_Iterable[float]] = ...) -> None: ...

class DoubleList(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, value: _Optional[_Iterable[float]] = ...) -> None: ...

class Int64List(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, value: _Optional[_Iterable[int]] = ...) -> None: ...

class BytesList(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, value: _Optional[_Iterable[bytes]] = ...) -> None: ...

class FidLists(_message.Message):
    __slots__ = ("list",)
    LIST_FIELD_NUMBER: _ClassVar[int]
    list: _containers.RepeatedCompositeFieldContainer[FidList]
    def __init__(self, list: _Optional[_Iterable[_Union[FidList, _Mapping]]] = ...) -> None: ...

class FloatLists(_message.Message):
    __slots__ = ("list",)
    LIST_FIELD_NUMBER: _ClassVar[int]
    list: _containers.RepeatedCompositeFieldContainer[FloatList]
    def __init__(self, list: _Optional[_Iterable[_Union[FloatList, _Mapping]]] = ...) -> None: ...

class DoubleLists(_message.Message):
    __slots__ = ("list",)
    LIST_FIELD_NUMBER: _ClassVar[int]
    list: _containers.RepeatedCompositeFieldContainer[DoubleList]
    def __init__(self, list: _Optional[_Iterable[_Union[DoubleList, _Mapping]]] = ...) -> None: ...

class Int64Lists(_message.Message):
    __slots__ = ("list",)
    LIST_FIELD_NUMBER: _ClassVar[int]
    list: _containers.RepeatedCompositeFieldContainer[Int64List]
    def __init__(self, list: _Optional[_Iterable[_Union[Int64List, _Mapping]]] = ...) -> None: ...

class BytesLists(_message.Message):
    __slots__ = ("list",)
    LIST_FIELD_NUMBER: _ClassVar[int]
    list: _containers.RepeatedCompositeFieldContainer[BytesList]
    def __init__(self, list: _Optional[_Iterable[_Union[BytesList, _Mapping]]] = ...) -> None: ...

class Feature(_message.Message):
    __slots__ = ("fid_v1_list", "fid_v2_list", "float_list", "double_list", "int64_list", "bytes_list", "fid_v2_lists", "float_lists", "double_lists", "int64_lists", "bytes_lists", "int64_value", "float_value", "double_value", "bytes_value", "fid_v1_lists")
    FID_V1_LIST_FIELD_NUMBER: _ClassVar[int]
    FID_V2_LIST_FIELD_NUMBER: _ClassVar[int]
    FLOAT_LIST_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_LIST_FIELD_NUMBER: _ClassVar[int]
    INT64_LIST_FIELD_NUMBER: _ClassVar[int]
    BYTES_LIST_FIELD_NUMBER: _ClassVar[int]
    FID_V2_LISTS_FIELD_NUMBER: _ClassVar[int]
    FLOAT_LISTS_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_LISTS_FIELD_NUMBER: _ClassVar[int]
    INT64_LISTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_LISTS_FIELD_NUMBER: _ClassVar[int]
    INT64_VALUE_FIELD_NUMBER: _ClassVar[int]
    FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_VALUE_FIELD_NUMBER: _ClassVar[int]
    BYTES_VALUE_FIELD_NUMBER: _ClassVar[int]
    FID_V1_LISTS_FIELD_NUMBER: _ClassVar[int]
    fid_v1_list: FidList
    fid_v2_list: FidList
    float_list: FloatList
    double_list: DoubleList
    int64_list: Int64List
    bytes_list: BytesList
    fid_v2_lists: FidLists
    float_lists: FloatLists
    double_lists: DoubleLists
    int64_lists: Int64Lists
    bytes_lists: BytesLists
    int64_value: int
    float_value: float
    double_value: float
    bytes_value: bytes
    fid_v1_lists: FidLists
    def __init__(self, fid_v1_list: _Optional[_Union[FidList, _Mapping]] = ..., fid_v2_list: _Optional[_Union[FidList, _Mapping]] = ..., float_list: _Optional[_Union[FloatList, _Mapping]] = ..., double_list: _Optional[_Union[DoubleList, _Mapping]] = ..., int64_list: _Optional[_Union[Int64List, _Mapping]] = ..., bytes_list: _Optional[_Union[BytesList, _Mapping]] = ..., fid_v2_lists: _Optional[_Union[FidLists, _Mapping]] = ..., float_lists: _Optional[_Union[FloatLists, _Mapping]] = ..., double_lists: _Optional[_Union[DoubleLists, _Mapping]] = ..., int64_lists: _Optional[_Union[Int64Lists, _Mapping]] = ..., bytes_lists: _Optional[_Union[BytesLists, _Mapping]] = ..., int64_value: _Optional[int] = ..., float_value: _Optional[float] = ..., double_value: _Optional[float] = ..., bytes_value: _Optional[bytes] = ..., fid_v1_lists: _Optional[_Union[FidLists, _Mapping]] = ...) -> None: ...

class FeatureMap(_message.Message):
    __slots__ = ("feature_map",)
    class FeatureMapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Feature
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Feature, _Mapping]] = ...) -> None: ...
    FEATURE_MAP_FIELD_NUMBER: _ClassVar[int]
    feature_map: _containers.MessageMap[str, Feature]
    def __init__(self, feature_map: _Optional[_Mapping[str, Feature]] = ...) -> None: ...

class RawFeature(_message.Message):
    __slots__ = ("feature",)
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    feature: _containers.RepeatedCompositeFieldContainer[Feature]
    def __init__(self, feature: _Optional[_Iterable[_Union[Feature, _Mapping]]] = ...) -> None: ...

class NamedFeatureList(_message.Message):
    __slots__ = ("name", "feature", "type", "id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    feature: _containers.RepeatedCompositeFieldContainer[Feature]
    type: FeatureListType
    id: int
    def __init__(self, name: _Optional[str] = ..., feature: _Optional[_Iterable[_Union[Feature, _Mapping]]] = ..., type: _Optional[_Union[FeatureListType, str]] = ..., id: _Optional[int] = ...) -> None: ...

class NamedRawFeatureList(_message.Message):
    __slots__ = ("name", "raw_feature", "type", "id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RAW_FEATURE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    raw_feature: _containers.RepeatedCompositeFieldContainer[RawFeature]
    type: FeatureListType
    id: int
    def __init__(self, name: _Optional[str] = ..., raw_feature: _Optional[_Iterable[_Union[RawFeature, _Mapping]]] = ..., type: _Optional[_Union[FeatureListType, str]] = ..., id: _Optional[int] = ...) -> None: ...

class ExampleBatch(_message.Message):
    __slots__ = ("named_feature_list", "named_raw_feature_list", "batch_size", "data_source_key")
    NAMED_FEATURE_LIST_FIELD_NUMBER: _ClassVar[int]
    NAMED_RAW_FEATURE_LIST_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    DATA_SOURCE_KEY_FIELD_NUMBER: _ClassVar[int]
    named_feature_list: _containers.RepeatedCompositeFieldContainer[NamedFeatureList]
    named_raw_feature_list: _containers.RepeatedCompositeFieldContainer[NamedRawFeatureList]
    batch_size: int
    data_source_key: int
    def __init__(self, named_feature_list: _Optional[_Iterable[_Union[NamedFeatureList, _Mapping]]] = ..., named_raw_feature_list: _Optional[_Iterable[_Union[NamedRawFeatureList, _Mapping]]] = ..., batch_size: _Optional[int] = ..., data_source_key: _Optional[int] = ...) -> None: ...

class NamedFeature(_message.Message):
    __slots__ = ("name", "feature", "id", "sorted_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FEATURE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SORTED_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    feature: Feature
    id: int
    sorted_id: int
    def __init__(self, name: _Optional[str] = ..., feature: _Optional[_Union[Feature, _Mapping]] = ..., id: _Optional[int] = ..., sorted_id: _Optional[int] = ...) -> None: ...

class NamedRawFeature(_message.Message):
    __slots__ = ("name", "raw_feature", "id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    RAW_FEATURE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    raw_feature: RawFeature
    id: int
    def __init__(self, name: _Optional[str] = ..., raw_feature: _Optional[_Union[RawFeature, _Mapping]] = ..., id: _Optional[int] = ...) -> None: ...

class Example(_message.Message):
    __slots__ = ("named_feature", "named_raw_feature", "line_id", "label", "instance_weight", "data_source_key")
    NAMED_FEATURE_FIELD_NUMBER: _ClassVar[int]
    NAMED_RAW_FEATURE_FIELD_NUMBER: _ClassVar[int]
    LINE_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DATA_SOURCE_KEY_FIELD_NUMBER: _ClassVar[int]
    named_feature: _containers.RepeatedCompositeFieldContainer[NamedFeature]
    named_raw_feature: _containers.RepeatedCompositeFieldContainer[NamedRawFeature]
    line_id: _line_id_pb2.LineId
    label: _containers.RepeatedScalarFieldContainer[float]
    instance_weight: float
    data_source_key: int
    def __init__(self, named_feature: _Optional[_Iterable[_Union[NamedFeature, _Mapping]]] = ..., named_raw_feature: _Optional[_Iterable[_Union[NamedRawFeature, _Mapping]]] = ..., line_id: _Optional[_Union[_line_id_pb2.LineId, _Mapping]] = ..., label: _Optional[_Iterable[float]] = ..., instance_weight: _Optional[float] = ..., data_source_key: _Optional[int] = ...) -> None: ...

class ExampleBatchRowMajor(_message.Message):
    __slots__ = ("shared_feature", "shared_raw_feature", "example")
    SHARED_FEATURE_FIELD_NUMBER: _ClassVar[int]
    SHARED_RAW_FEATURE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    shared_feature: _containers.RepeatedCompositeFieldContainer[NamedFeature]
    shared_raw_feature: _containers.RepeatedCompositeFieldContainer[NamedRawFeature]
    example: _containers.RepeatedCompositeFieldContainer[Example]
    def __init__(self, shared_feature: _Optional[_Iterable[_Union[NamedFeature, _Mapping]]] = ..., shared_raw_feature: _Optional[_Iterable[_Union[NamedRawFeature, _Mapping]]] = ..., example: _Optional[_Iterable[_Union[Example, _Mapping]]] = ...) -> None: ...

class FeatureData(_message.Message):
    __slots__ = ("gid", "fids", "feature_columns", "origin_cnt", "sample_cnt")
    GID_FIELD_NUMBER: _ClassVar[int]
    FIDS_FIELD_NUMBER: _ClassVar[int]
    FEATURE_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_CNT_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_CNT_FIELD_NUMBER: _ClassVar[int]
    gid: int
    fids: _containers.RepeatedScalarFieldContainer[int]
    feature_columns: _containers.RepeatedCompositeFieldContainer[NamedFeature]
    origin_cnt: int
    sample_cnt: int
    def __init__(self, gid: _Optional[int] = ..., fids: _Optional[_Iterable[int]] = ..., feature_columns: _Optional[_Iterable[_Union[NamedFeature, _Mapping]]] = ..., origin_cnt: _Optional[int] = ..., sample_cnt: _Optional[int] = ...) -> None: ...

class ChannelCache(_message.Message):
    __slots__ = ("channel_id", "feature_datas")
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    FEATURE_DATAS_FIELD_NUMBER: _ClassVar[int]
    channel_id: int
    feature_datas: _containers.RepeatedCompositeFieldContainer[FeatureData]
    def __init__(self, channel_id: _Optional[int] = ..., feature_datas: _Optional[_Iterable[_Union[FeatureData, _Mapping]]] = ...) -> None: ...

class FilterValues(_message.Message):
    __slots__ = ("float_list", "int64_list", "bytes_list")
    FLOAT_LIST_FIELD_NUMBER: _ClassVar[int]
    INT64_LIST_FIELD_NUMBER: _ClassVar[int]
    BYTES_LIST_FIELD_NUMBER: _ClassVar[int]
    float_list: FloatList
    int64_list: Int64List
    bytes_list: BytesList
    def __init__(self, float_list: _Optional[_Union[FloatList, _Mapping]] = ..., int64_list: _Optional[_Union[Int64List, _Mapping]] = ..., bytes_list: _Optional[_Union[BytesList, _Mapping]] = ...) -> None: ...

class SliceConfig(_message.Message):
    __slots__ = ("feature_name", "start", "end", "feature_idx", "slice_idx", "pooling_type", "max_sequence_length")
    FEATURE_NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FEATURE_IDX_FIELD_NUMBER: _ClassVar[int]
    SLICE_IDX_FIELD_NUMBER: _ClassVar[int]
    POOLING_TYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_SEQUENCE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    feature_name: str
    start: int
    end: int
    feature_idx: int
    slice_idx: int
    pooling_type: PoolingType
    max_sequence_length: int
    def __init__(self, feature_name: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., feature_idx: _Optional[int] = ..., slice_idx: _Optional[int] = ..., pooling_type: _Optional[_Union[PoolingType, str]] = ..., max_sequence_length: _Optional[int] = ...) -> None: ...

class TensorShape(_message.Message):
    __slots__ = ("dims",)
    DIMS_FIELD_NUMBER: _ClassVar[int]
    dims: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dims: _Optional[_Iterable[int]] = ...) -> None: ...

class OutConfig(_message.Message):
    __slots__ = ("slice_configs", "out_type", "shape")
    SLICE_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    OUT_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    slice_configs: _containers.RepeatedCompositeFieldContainer[SliceConfig]
    out_type: OutType
    shape: _containers.RepeatedCompositeFieldContainer[TensorShape]
    def __init__(self, slice_configs: _Optional[_Iterable[_Union[SliceConfig, _Mapping]]] = ..., out_type: _Optional[_Union[OutType, str]] = ..., shape: _Optional[_Iterable[_Union[TensorShape, _Mapping]]] = ...) -> None: ...

class FeatureConfig(_message.Message):
    __slots__ = ("table", "pooling_type", "slice_dims", "max_sequence_length")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    POOLING_TYPE_FIELD_NUMBER: _ClassVar[int]
    SLICE_DIMS_FIELD_NUMBER: _ClassVar[int]
    MAX_SEQUENCE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    table: str
    pooling_type: PoolingType
    slice_dims: _containers.RepeatedScalarFieldContainer[int]
    max_sequence_length: int
    def __init__(self, table: _Optional[str] = ..., pooling_type: _Optional[_Union[PoolingType, str]] = ..., slice_dims: _Optional[_Iterable[int]] = ..., max_sequence_length: _Optional[int] = ...) -> None: ...

class FeatureConfigs(_message.Message):
    __slots__ = ("feature_configs", "out_configs")
    class FeatureConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: FeatureConfig
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[FeatureConfig, _Mapping]] = ...) -> None: ...
    class OutConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: OutConfig
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[OutConfig, _Mapping]] = ...) -> None: ...
    FEATURE_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    OUT_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    feature_configs: _containers.MessageMap[str, FeatureConfig]
    out_configs: _containers.MessageMap[str, OutConfig]
    def __init__(self, feature_configs: _Optional[_Mapping[str, FeatureConfig]] = ..., out_configs: _Optional[_Mapping[str, OutConfig]] = ...) -> None: ...
