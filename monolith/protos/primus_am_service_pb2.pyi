# ruff: noqa
# fmt: off
# mypy: ignore-errors
from google.protobuf import wrappers_pb2 as _wrappers_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PonyState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PS_REGISTERING: _ClassVar[PonyState]
    PS_REGISTERED: _ClassVar[PonyState]
    RUNNING: _ClassVar[PonyState]
    FINISH: _ClassVar[PonyState]
PS_REGISTERING: PonyState
PS_REGISTERED: PonyState
RUNNING: PonyState
FINISH: PonyState

class PSInfo(_message.Message):
    __slots__ = ("ip", "ports", "shard_id", "name")
    IP_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    SHARD_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ip: str
    ports: _containers.RepeatedScalarFieldContainer[int]
    shard_id: int
    name: str
    def __init__(self, ip: _Optional[str] = ..., ports: _Optional[_Iterable[int]] = ..., shard_id: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class PonyHeartbeatRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PonyHeartbeatResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: PonyState
    def __init__(self, state: _Optional[_Union[PonyState, str]] = ...) -> None: ...

class PonyGetPSInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PonyGetPSInfoResponse(_message.Message):
    __slots__ = ("ps_info",)
    PS_INFO_FIELD_NUMBER: _ClassVar[int]
    ps_info: _containers.RepeatedCompositeFieldContainer[PSInfo]
    def __init__(self, ps_info: _Optional[_Iterable[_Union[PSInfo, _Mapping]]] = ...) -> None: ...

class PonyStartWorkerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PonyStartWorkerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SucceedRequest(_message.Message):
    __slots__ = ("exit_code", "diagnose", "graceful_shutdown_timeout_ms")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSE_FIELD_NUMBER: _ClassVar[int]
    GRACEFUL_SHUTDOWN_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    diagnose: str
    graceful_shutdown_timeout_ms: _wrappers_pb2.Int64Value
    def __init__(self, exit_code: _Optional[int] = ..., diagnose: _Optional[str] = ..., graceful_shutdown_timeout_ms: _Optional[_Union[_wrappers_pb2.Int64Value, _Mapping]] = ...) -> None: ...

class SucceedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KillRequest(_message.Message):
    __slots__ = ("exit_code", "diagnose", "graceful_shutdown_timeout_ms")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSE_FIELD_NUMBER: _ClassVar[int]
    GRACEFUL_SHUTDOWN_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    diagnose: str
    graceful_shutdown_timeout_ms: _wrappers_pb2.Int64Value
    def __init__(self, exit_code: _Optional[int] = ..., diagnose: _Optional[str] = ..., graceful_shutdown_timeout_ms: _Optional[_Union[_wrappers_pb2.Int64Value, _Mapping]] = ...) -> None: ...

class KillResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SuspendRequest(_message.Message):
    __slots__ = ("snapshot_id",)
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: int
    def __init__(self, snapshot_id: _Optional[int] = ...) -> None: ...

class SuspendResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SuspendStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SuspendStatusResponse(_message.Message):
    __slots__ = ("succeed", "message")
    SUCCEED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    succeed: bool
    message: str
    def __init__(self, succeed: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSnapshotRequest(_message.Message):
    __slots__ = ("snapshot_id",)
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: int
    def __init__(self, snapshot_id: _Optional[int] = ...) -> None: ...

class GetSnapshotResponse(_message.Message):
    __slots__ = ("available", "dir")
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DIR_FIELD_NUMBER: _ClassVar[int]
    available: bool
    dir: str
    def __init__(self, available: _Optional[bool] = ..., dir: _Optional[str] = ...) -> None: ...

class ProgressRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProgressResponse(_message.Message):
    __slots__ = ("progress",)
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    progress: float
    def __init__(self, progress: _Optional[float] = ...) -> None: ...

class StarvingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StarvingResponse(_message.Message):
    __slots__ = ("starving",)
    STARVING_FIELD_NUMBER: _ClassVar[int]
    starving: bool
    def __init__(self, starving: _Optional[bool] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("app_id", "final_status", "track_url")
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATUS_FIELD_NUMBER: _ClassVar[int]
    TRACK_URL_FIELD_NUMBER: _ClassVar[int]
    app_id: str
    final_status: str
    track_url: str
    def __init__(self, app_id: _Optional[str] = ..., final_status: _Optional[str] = ..., track_url: _Optional[str] = ...) -> None: ...

class TaskTimePointRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TaskTimePointResponse(_message.Message):
    __slots__ = ("time_point",)
    TIME_POINT_FIELD_NUMBER: _ClassVar[int]
    time_point: str
    def __init__(self, time_point: _Optional[str] = ...) -> None: ...

class CreateSavepointRequest(_message.Message):
    __slots__ = ("savepoint_dir",)
    SAVEPOINT_DIR_FIELD_NUMBER: _ClassVar[int]
    savepoint_dir: str
    def __init__(self, savepoint_dir: _Optional[str] = ...) -> None: ...

class CreateSavepointResponse(_message.Message):
    __slots__ = ("code", "message", "savepoint_id")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SAVEPOINT_ID_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    savepoint_id: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., savepoint_id: _Optional[str] = ...) -> None: ...

class CreateSavepointStatusRequest(_message.Message):
    __slots__ = ("savepoint_restore_id",)
    SAVEPOINT_RESTORE_ID_FIELD_NUMBER: _ClassVar[int]
    savepoint_restore_id: str
    def __init__(self, savepoint_restore_id: _Optional[str] = ...) -> None: ...

class CreateSavepointStatusResponse(_message.Message):
    __slots__ = ("code", "message", "create_savepoint_state")
    class CreateSavepointState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PENDING: _ClassVar[CreateSavepointStatusResponse.CreateSavepointState]
        RUNNING: _ClassVar[CreateSavepointStatusResponse.CreateSavepointState]
        SUCCEEDED: _ClassVar[CreateSavepointStatusResponse.CreateSavepointState]
        FAILED: _ClassVar[CreateSavepointStatusResponse.CreateSavepointState]
    PENDING: CreateSavepointStatusResponse.CreateSavepointState
    RUNNING: CreateSavepointStatusResponse.CreateSavepointState
    SUCCEEDED: CreateSavepointStatusResponse.CreateSavepointState
    FAILED: CreateSavepointStatusResponse.CreateSavepointState
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATE_SAVEPOINT_STATE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    create_savepoint_state: CreateSavepointStatusResponse.CreateSavepointState
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., create_savepoint_state: _Optional[_Union[CreateSavepointStatusResponse.CreateSavepointState, str]] = ...) -> None: ...
