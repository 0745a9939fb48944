"""Arrays inside a JSON position: {"dtype": "int64", "data": base64 of the little-endian values}."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from monolith.tensors import Ragged

_DTYPES = {"int64": "<i8", "float32": "<f4", "uint8": "|u1"}


def encode_array(array: np.ndarray[Any, Any]) -> dict[str, str]:
    """Return a vector as JSON values.

    >>> encode_array(np.array([1, 2]))
    {'dtype': 'int64', 'data': 'AQAAAAAAAAACAAAAAAAAAA=='}
    """
    dtype = array.dtype.name
    return {"dtype": dtype, "data": base64.b64encode(array.astype(_DTYPES[dtype]).tobytes()).decode()}


def decode_array(value: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Return the vector that `encode_array` wrote; ValueError if it is anything else."""
    try:
        data = base64.b64decode(value["data"], validate=True)
        return np.frombuffer(data, _DTYPES[value["dtype"]]).astype(value["dtype"])
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise ValueError(f"an array of a position has a dtype and data in base64, got {str(value)[:80]}") from error


def encode_rows(rows: Ragged) -> dict[str, dict[str, str]]:
    """Return ragged rows as JSON values."""
    return {"values": encode_array(rows.values.numpy()), "row_splits": encode_array(rows.row_splits.numpy())}


def decode_rows(value: Mapping[str, Any]) -> Ragged:
    """Return the rows that `encode_rows` wrote."""
    if not isinstance(value, Mapping) or set(value) != {"values", "row_splits"}:
        raise ValueError(f"rows of a position have values and row_splits, got {str(value)[:80]}")
    return Ragged(*(torch.from_numpy(decode_array(value[name])) for name in ("values", "row_splits")))
