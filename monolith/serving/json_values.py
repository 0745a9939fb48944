"""JSON from anybody: every value is checked before it is used."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from monolith.export.signature import DATATYPES, Column

Value = TypeVar("Value", str, "list[Any]", "dict[str, Any]")

_KINDS = {str: "a text", list: "a list", dict: "an object"}
# NumPy kinds that JSON values of a datatype may have; bool is no number here.
_ALLOWED = {"i": "iu", "f": "iuf", "b": "b"}


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a request; a ValueError if it is none, or has a NaN or Infinity in it.

    >>> read_object(b'{"inputs": []}')
    {'inputs': []}
    """
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the request is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"the request is no JSON: it is not UTF-8 ({error.reason})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the request is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"the request must be a JSON object, got {type(value).__name__}")
    return value


def field(value: Any, name: str, kind: type[Value]) -> Value:
    """Return a member of a JSON object that must be there and of this kind.

    >>> field({"shape": 3}, "shape", list)
    Traceback (most recent call last):
        ...
    ValueError: 'shape' must be a list, got 3
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"expected an object with {name!r}, got {_shown(value)}")
    if name not in value:
        raise ValueError(f"{name!r} is missing; given are {', '.join(map(str, value)) or 'none'}")
    if not isinstance(value[name], kind):
        raise ValueError(f"{name!r} must be {_KINDS[kind]}, got {_shown(value[name])}")
    found: Value = value[name]
    return found


def checked_array(what: str, data: list[Any], datatype: str) -> Column:
    """Return JSON numbers as an array of a datatype, without rounding, wrapping or guessing.

    >>> checked_array("input 'uid'", [1, 2.5], "INT64")
    Traceback (most recent call last):
        ...
    ValueError: input 'uid': its data must be INT64 numbers, got float64
    """
    wanted = DATATYPES[datatype]
    try:
        found = np.asarray(data)
    except (ValueError, RecursionError):
        raise ValueError(f"{what}: its data must be a list of values, nested evenly if at all") from None
    if found.size == 0:
        return np.zeros(found.shape, wanted)
    if found.dtype.kind not in _ALLOWED[wanted.kind]:
        raise ValueError(f"{what}: its data must be {datatype} numbers, got {found.dtype}")
    with np.errstate(over="ignore"):
        converted = found.astype(wanted)
    fits = np.isfinite(converted).all() if wanted.kind == "f" else np.array_equal(converted, found)
    if not fits:
        raise ValueError(f"{what}: a value is too large for {datatype}")
    return converted


def _refuse_constant(name: str) -> None:
    raise ValueError(f"the request has the number {name}, which is no JSON")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
