"""Nested Python values with tensors in them (an optimizer's state) as plain tensors by name, and back; no pickle."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from monolith.errors import CorruptFileError


def flatten_tree(name: str, tree: object) -> dict[str, Tensor]:
    """Return the tensors of `tree` under `<name>/…`, and its shape as JSON bytes under `<name>.json`.

    >>> flat = flatten_tree("adam", {"state": {0: {"step": torch.tensor(3.0)}}, "betas": (0.9, 0.999)})
    >>> sorted(flat)
    ['adam.json', 'adam/state/0/step']
    >>> restore_tree("adam", flat)
    {'state': {0: {'step': tensor(3.)}}, 'betas': (0.9, 0.999)}
    """
    tensors: dict[str, Tensor] = {}
    shape = json.dumps(_encode(name, tree, tensors))
    tensors[f"{name}.json"] = torch.frombuffer(bytearray(shape.encode()), dtype=torch.uint8)
    return tensors


def restore_tree(name: str, tensors: Mapping[str, Tensor]) -> Any:
    """Return what `flatten_tree` took; a CorruptFileError if it is not whole."""
    try:
        shape = json.loads(bytes(tensors[f"{name}.json"].tolist()))
        return _decode(shape, tensors)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(
            f"the saved state of {name!r} cannot be read ({type(error).__name__}: {error})"
        ) from error


def _encode(place: str, value: object, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[place] = value.detach().cpu().contiguous().clone()
        return {"tensor": place}
    if isinstance(value, dict):
        # Pairs, because keys may be numbers.
        return {"dict": [[key, _encode(f"{place}/{key}", part, tensors)] for key, part in value.items()]}
    if isinstance(value, list | tuple):
        parts = [_encode(f"{place}/{i}", part, tensors) for i, part in enumerate(value)]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{place} is a {type(value).__name__}; only tensors, numbers, text, lists and dicts can be saved")


def _decode(shape: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(shape, list):
        return [_decode(part, tensors) for part in shape]
    if not isinstance(shape, dict):
        return shape
    ((kind, inside),) = shape.items()
    if kind == "tensor":
        return tensors[inside]
    if kind == "dict":
        return {key: _decode(part, tensors) for key, part in inside}
    if kind == "tuple":
        return tuple(_decode(part, tensors) for part in inside)
    raise ValueError(f"unknown kind {kind!r}")
