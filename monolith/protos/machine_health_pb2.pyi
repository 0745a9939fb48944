# ruff: noqa
# fmt: off
# mypy: ignore-errors
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MachineHealthResult(_message.Message):
    __slots__ = ("status", "message")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OK: _ClassVar[MachineHealthResult.Status]
        OUT_OF_MEMORY: _ClassVar[MachineHealthResult.Status]
    OK: MachineHealthResult.Status
    OUT_OF_MEMORY: MachineHealthResult.Status
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    status: MachineHealthResult.Status
    message: str
    def __init__(self, status: _Optional[_Union[MachineHealthResult.Status, str]] = ..., message: _Optional[str] = ...) -> None: ...
