"""What a data loader's `state_dict` holds, as JSON and back."""

import base64
from typing import Any

import torch

_MARK = "__kind__"


def to_json(value: Any) -> Any:
    """Return nested dicts, lists, tuples, tensors, bytes and plain values as JSON values.

    Raises:
        TypeError: Something else is among them.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return {_MARK: "bytes", "data": base64.b64encode(value).decode()}
    if isinstance(value, torch.Tensor):
        data = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        dtype = str(value.dtype).removeprefix("torch.")
        return {_MARK: "tensor", "dtype": dtype, "shape": list(value.shape), "data": base64.b64encode(data).decode()}
    if isinstance(value, tuple):
        return {_MARK: "tuple", "items": [to_json(item) for item in value]}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        # As pairs: keys may be numbers, which JSON would make text.
        return {_MARK: "dict", "items": [[to_json(key), to_json(item)] for key, item in value.items()]}
    raise TypeError(f"the loader's state_dict holds a {type(value).__name__}, which cannot be kept with a position")


def from_json(value: Any) -> Any:
    """Return what `to_json` was given.

    >>> from_json(to_json({1: (torch.tensor([2.5]), b"x"), "a": [None]}))
    {1: (tensor([2.5000]), b'x'), 'a': [None]}
    """
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_MARK)
    if kind == "dict":
        return {from_json(key): from_json(item) for key, item in value["items"]}
    if kind == "tuple":
        return tuple(from_json(item) for item in value["items"])
    if kind not in ("bytes", "tensor"):
        raise ValueError(f"the position of a data loader is damaged: {str(value)[:80]}")
    data = base64.b64decode(value["data"])
    if kind == "bytes":
        return data
    dtype = getattr(torch, value["dtype"])
    flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.view(value["shape"])
