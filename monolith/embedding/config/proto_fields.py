"""Copies the arguments of a config dataclass into its message and back.

A config names its message by ``kind``, the member of the oneof ``type`` that holds it. An argument has the name of its
field unless its metadata says ``{"proto": name}``. One that is None stays unset, so the message's default holds.
"""

import math
from collections.abc import Mapping
from dataclasses import Field, fields
from numbers import Real
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from google.protobuf.message import Message


class Choice(Protocol):
    """A config dataclass that is one member of a oneof ``type``."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    kind: ClassVar[str]


ChoiceT = TypeVar("ChoiceT", bound=Choice)


def check_numbers(config: Choice) -> None:
    """Raise unless every argument that is given is a finite number."""
    for field in fields(config):
        value = getattr(config, field.name)
        if value is None:
            continue
        owner = type(config).__name__
        if not isinstance(value, Real):
            raise TypeError(f"{owner}: {field.name} must be a number, got {value!r}")
        if not math.isfinite(value):
            raise ValueError(f"{owner}: {field.name} must be finite, got {value}")


def check_at_least(config: Choice, name: str, lowest: float) -> None:
    """Raise if the argument is given and below ``lowest``."""
    value = getattr(config, name)
    if value is not None and value < lowest:
        raise ValueError(f"{type(config).__name__}: {name} must be at least {lowest}, got {value}")


def write_choice(message: Message, config: Choice) -> None:
    """Set the oneof of ``message`` to ``config``, with every argument that is not None."""
    chosen: Message = getattr(message, config.kind)
    chosen.SetInParent()
    for field in fields(config):
        value = getattr(config, field.name)
        if value is not None:
            setattr(chosen, proto_name(field), value)


def chosen_kind(message: Message) -> str:
    """Return the member of the oneof ``type`` that is set; raises if none is."""
    kind = message.WhichOneof("type")
    if kind is None:
        name = message.DESCRIPTOR.name
        options = ", ".join(field.name for field in message.DESCRIPTOR.oneofs_by_name["type"].fields)
        raise ValueError(f"{name} must be set type: choose one of {options}, as in message.<type>.SetInParent()")
    return str(kind)


def read_choice(message: Message, classes: Mapping[str, type[ChoiceT]]) -> ChoiceT:
    """Return the config that the oneof of ``message`` holds.

    A field that is not set becomes None where the argument's own default is None, and the message's default where it
    is not: the two may differ.
    """
    kind = chosen_kind(message)
    chosen: Message = getattr(message, kind)
    cls = classes[kind]
    values = resolved_values(chosen)
    arguments = {
        field.name: values[proto_name(field)]
        for field in fields(cls)
        if field.default is not None or chosen.HasField(proto_name(field))
    }
    return cls(**arguments)


def resolved_values(message: Message) -> dict[str, Any]:
    """Return the number in each field of ``message``, with its default where the field is not set."""
    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.message_type is None:
            value = getattr(message, field.name)
            values[field.name] = as_float32(value) if field.type == field.TYPE_FLOAT else value
    return values


def proto_name(field: Field[Any]) -> str:
    """Return the name of an argument in its message and in the native core."""
    return str(field.metadata.get("proto", field.name))


def as_float32(value: float) -> float:
    """Return what float32 keeps of a number: of the doubles that round to it, the one with the fewest digits.

    >>> as_float32(0.009999999776482582)
    0.01
    """
    return float(str(np.float32(value)))
