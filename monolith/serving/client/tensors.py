"""Columns as tensors of the Open Inference Protocol, and answers as arrays."""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from monolith.errors import shown
from monolith.tensors import Ragged

LENGTHS: Final = ":lengths"
RECORDS: Final = "examples"
_TEXT: Final = "BYTES"
_DTYPES: Final = {"INT64": "<i8", "INT32": "<i4", "FP32": "<f4", "FP64": "<f8", "BOOL": "?"}


@dataclass(frozen=True, slots=True)
class InferRequest:
    """The body of a request, and how much of it is JSON."""

    content: bytes

    json_bytes: int


def request_of_columns(
    inputs: Mapping[str, str], columns: Mapping[str, Any], signature: str | None = None
) -> InferRequest:
    """Return the request for columns; `inputs` are the model's tensors with their datatypes."""
    names = [name for name in inputs if not name.endswith(LENGTHS) or name.removesuffix(LENGTHS) not in inputs]
    unknown = [name for name in columns if name not in names]
    missing = [name for name in names if name not in columns]
    if unknown or missing:
        what = f"there is no input {shown(unknown[0])}" if unknown else f"input {missing[0]!r} is missing"
        raise ValueError(f"{what}; the inputs are {', '.join(names) or 'none'}")
    tensors: list[tuple[str, str, list[int], bytes]] = []
    for name in names:
        values = columns[name]
        if name + LENGTHS in inputs:
            values, lengths = _flat(name, values)
            tensors.append((name + LENGTHS, "INT64", [len(lengths)], lengths.astype("<i8").tobytes()))
        tensors.append(_tensor(name, inputs[name], values))
    return _request(tensors, signature)


def request_of_records(records: Sequence[bytes], signature: str | None = None) -> InferRequest:
    """Return the request for serialized records."""
    return _request([(RECORDS, _TEXT, [len(records)], _framed(records))], signature)


def outputs_of(content: bytes, json_bytes: int | None) -> dict[str, NDArray[Any]]:
    """Return the outputs of an answer by name."""
    head = json.loads(content if json_bytes is None else content[:json_bytes])
    place = len(content) if json_bytes is None else json_bytes
    found: dict[str, NDArray[Any]] = {}
    for output in head["outputs"]:
        dtype = np.dtype(_DTYPES[output["datatype"]])
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            values = np.array(output["data"], dtype)
        else:
            # A copy: the caller may write to it, and need not keep the whole answer.
            values = np.frombuffer(content, dtype, size // dtype.itemsize, place).copy()
            place += size
        found[output["name"]] = values.reshape(output["shape"])
    return found


def _request(tensors: Sequence[tuple[str, str, list[int], bytes]], signature: str | None) -> InferRequest:
    inputs = [
        {"name": name, "datatype": datatype, "shape": shape, "parameters": {"binary_data_size": len(content)}}
        for name, datatype, shape, content in tensors
    ]
    parameters = {"binary_data_output": True, **({} if signature is None else {"signature": signature})}
    head = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
    return InferRequest(b"".join((head, *(content for *_, content in tensors))), len(head))


def _tensor(name: str, datatype: str, values: Any) -> tuple[str, str, list[int], bytes]:
    if isinstance(values, Ragged):
        raise ValueError(f"input {name!r} has one value per example, got a list of them")
    array = values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if datatype == _TEXT:
        flat = array.reshape(-1).tolist()
        wrong = [one for one in flat if not isinstance(one, str | bytes | int) or isinstance(one, bool)]
        if wrong:
            raise ValueError(f"input {name!r} must be texts, got {shown(wrong[0])}; convert it with str()")
        texts = [one if isinstance(one, bytes) else str(one).encode() for one in flat]
        return name, datatype, list(array.shape), _framed(texts)
    dtype = np.dtype(_DTYPES[datatype])
    has_type = isinstance(values, Tensor | np.ndarray)
    if array.size and not np.can_cast(array.dtype, dtype, "safe" if has_type else "same_kind"):
        raise ValueError(f"input {name!r} must be {dtype.name}, got {array.dtype}; convert it with .astype")
    return name, datatype, list(array.shape), np.ascontiguousarray(array, dtype).tobytes()


def _flat(name: str, values: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return the values of lists end to end, and the length of each."""
    if isinstance(values, Ragged):
        return values.values, values.row_lengths().numpy()
    wrong = [one for one in values if not isinstance(one, list | tuple | np.ndarray | Tensor)]
    if wrong:
        raise ValueError(f"input {name!r} has a list per example, got {shown(wrong[0])}; put a single value in a list")
    flat = [value for row in values for value in (row.tolist() if isinstance(row, np.ndarray | Tensor) else row)]
    return flat, np.array([len(row) for row in values], np.int64)


def _framed(parts: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)
