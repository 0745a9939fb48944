"""Serialized records in requests: texts of base64 in JSON, or bytes that each follow their length."""

import binascii
from typing import Final

from monolith._core.native import JsonValue
from monolith.errors import shown
from monolith.export.serving_model import ServingModel

RECORDS: Final = "examples"
"""Name of the input that takes records, one per element, unless a column of the model has this name."""

MAX_RECORDS: Final = 1 << 16
"""Of one request: each is an object of the interpreter's."""

_BASE64: Final = "b64"
_LENGTH_BYTES: Final = 4


def has_records_input(model: ServingModel) -> bool:
    """Whether `RECORDS` stands for records, and not for a column of this name."""
    return all(spec.name != RECORDS for spec in model.signature.inputs)


def records_in(model: ServingModel, values: JsonValue) -> list[bytes] | None:
    """Return the records of a list of ``{"b64": "..."}`` or ``{"examples": {"b64": "..."}}``; None if it has others."""
    names = {spec.name for spec in model.signature.inputs}
    for first in values.items(1) if values.kind == "list" else ():
        if first.kind == "object" and len(first) == 1:
            (name,) = first.names(1)
            if name in (_BASE64, RECORDS) and name not in names:
                return [_record(number, value) for number, value in _numbered(values)]
    return None


def base64_records(values: JsonValue) -> list[bytes]:
    """Return the records of a list of base64 texts, or of ``{"b64": "..."}``."""
    return [_record(number, value) for number, value in _numbered(values)]


def framed_records(what: str, content: bytes) -> list[bytes]:
    """Return the records of a binary tensor: each follows its length, four little-endian bytes.

    >>> framed_records("input 'examples'", bytes([2, 0, 0, 0]) + b"ab")
    [b'ab']
    """
    found: list[bytes] = []
    place = 0
    while place < len(content):
        _check_count(len(found) + 1)
        begin = place + _LENGTH_BYTES
        end = begin + int.from_bytes(content[place:begin], "little")
        if end > len(content) or begin > len(content):
            raise ValueError(f"{what}: record {len(found)} is longer than the binary data that follow")
        found.append(content[begin:end])
        place = end
    return found


def _numbered(values: JsonValue) -> enumerate[JsonValue]:
    _check_count(len(values))
    return enumerate(values.items(len(values)))


def _check_count(number: int) -> None:
    if number > MAX_RECORDS:
        raise ValueError(f"a request may have at most {MAX_RECORDS} records; send fewer at a time")


def _record(number: int, value: JsonValue) -> bytes:
    if value.kind == "object" and len(value) == 1 and value.member(RECORDS) is not None:
        value = value.member(RECORDS) or value
    text = value.member(_BASE64) if value.kind == "object" and len(value) == 1 else value
    if text is None or text.kind != "text":
        raise ValueError(f'record {number} must be {{"{_BASE64}": "..."}}, got {shown(value.shown())}')
    try:
        return binascii.a2b_base64(text.text().encode("ascii"), strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"record {number} is no base64: {error}") from None
