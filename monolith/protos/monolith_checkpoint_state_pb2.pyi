# ruff: noqa
# fmt: off
# mypy: ignore-errors
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MonolithCheckpointState(_message.Message):
    __slots__ = ("exempt_model_checkpoint_paths", "last_checkpoint_save_timestamp", "builtin_hash_table_type")
    class HashTableType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[MonolithCheckpointState.HashTableType]
        CUCKOO_HASH_MAP: _ClassVar[MonolithCheckpointState.HashTableType]
        MULTI_CUCKOO_HASH_MAP: _ClassVar[MonolithCheckpointState.HashTableType]
    UNKNOWN: MonolithCheckpointState.HashTableType
    CUCKOO_HASH_MAP: MonolithCheckpointState.HashTableType
    MULTI_CUCKOO_HASH_MAP: MonolithCheckpointState.HashTableType
    EXEMPT_MODEL_CHECKPOINT_PATHS_FIELD_NUMBER: _ClassVar[int]
    LAST_CHECKPOINT_SAVE_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    BUILTIN_HASH_TABLE_TYPE_FIELD_NUMBER: _ClassVar[int]
    exempt_model_checkpoint_paths: _containers.RepeatedScalarFieldContainer[str]
    last_checkpoint_save_timestamp: int
    builtin_hash_table_type: MonolithCheckpointState.HashTableType
    def __init__(self, exempt_model_checkpoint_paths: _Optional[_Iterable[str]] = ..., last_checkpoint_save_timestamp: _Optional[int] = ..., builtin_hash_table_type: _Optional[_Union[MonolithCheckpointState.HashTableType, str]] = ...) -> None: ...
