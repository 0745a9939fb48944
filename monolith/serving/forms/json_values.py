"""JSON from untrusted clients: every value is checked before use.

The core reads it, without the interpreter lock and without an object per value: see ``csrc/parse/json_document.h``.
"""

import torch

from monolith._core.native import JsonValue, parse_json
from monolith.errors import shown
from monolith.export.signature import Array
from monolith.tensors import Ragged

MAX_DEPTH = 64
"""Lists and objects in each other; a request needs five, and its tensors may have nested lists."""

MAX_VALUES = 1 << 23
"""Values of one request: 128 MiB while it is read."""

_KINDS = {"text": "a text", "list": "a list", "object": "an object"}


def read_object(body: bytes, size: int | None = None) -> JsonValue:
    """Return the JSON object in the first `size` bytes of a request; a ValueError says where it is not JSON.

    >>> len(read_object(b'{"inputs": []}'))
    1
    """
    try:
        value = parse_json(body, 0, len(body) if size is None else size, MAX_DEPTH, MAX_VALUES)
    except ValueError as error:
        raise ValueError(f"the request is no JSON that is read here: {error}") from None
    if value.kind != "object":
        raise ValueError(f"the request must be a JSON object, got {value.shown()}")
    return value


def field(value: JsonValue, name: str, kind: str) -> JsonValue:
    """Return a required member of a JSON object; a ValueError if it is missing or of another kind.

    >>> field(read_object(b'{"shape": 3}'), "shape", "list")
    Traceback (most recent call last):
        ...
    ValueError: 'shape' must be a list, got 3
    """
    if value.kind != "object":
        raise ValueError(f"expected an object with {shown(name)}, got {value.shown()}")
    found = value.member(name)
    if found is None:
        given = ", ".join(shown(one) for one in value.names(4)) or "none"
        raise ValueError(f"{shown(name)} is missing; given are {given}{', ...' if len(value) > 4 else ''}")
    if found.kind != kind:
        raise ValueError(f"{shown(name)} must be {_KINDS[kind]}, got {found.shown()}")
    return found


def text_field(value: JsonValue, name: str) -> str:
    """Return a member of a JSON object that must be a text."""
    return field(value, name, "text").text()


def checked_lists(what: str, data: JsonValue, datatype: str, missing: int | float | None = None) -> Ragged:
    """Return a list of lists of ids, which may differ in length, as it is in training; null as `missing` says.

    >>> checked_lists("input 'tags'", field(read_object(b'{"data": [[1, 2], []]}'), "data", "list"), "INT64").to_list()
    [[1, 2], []]
    """
    try:
        return lists_of(*data.lists(datatype, missing))
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def lists_of(values: Array, lengths: Array) -> Ragged:
    """Return lists of these lengths, taken from values that stand end to end."""
    if lengths.size and (lengths.min() < 0 or lengths.max() > len(values)) or lengths.sum() != len(values):
        raise ValueError(
            f"its lengths must be numbers from 0 on that add up to its {len(values)} values, got "
            f"{shown(lengths[:8].tolist())}{' and more' if len(lengths) > 8 else ''}"
        )
    return Ragged.from_row_lengths(torch.from_numpy(values), torch.from_numpy(lengths))


def checked_array(what: str, data: JsonValue, datatype: str, missing: int | float | None = None) -> Array:
    """Return a list of JSON values as an array of a datatype, without rounding, wrapping or guessing.

    Texts become ids; null reads as `missing`.

    >>> checked_array("input 'uid'", field(read_object(b'{"data": [1, 2.5]}'), "data", "list"), "INT64")
    Traceback (most recent call last):
        ...
    ValueError: input 'uid': its data must be INT64 numbers, got 2.5
    """
    try:
        array: Array = data.array(datatype, missing)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    return array
