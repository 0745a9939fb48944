"""Messages as bytes and back; docs/formats.md, "Wire frames", has the layout byte by byte.

A frame is a header of fixed size, an index (JSON and the arrays' descriptions), and the arrays as they lie in memory.
Nothing is copied: encoding lists the buffers to send, decoding makes views of the one buffer that was received.
Everything a frame claims is checked against the limits and against its own length before it is acted upon.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from monolith._core import native
from monolith.errors import CorruptFrameError
from monolith.wire.deadline import Deadline
from monolith.wire.message import Array, Kind, Message

MAGIC: Final = b"MNLWIRE\n"
VERSION: Final = 2
"""The one version of the format that this code reads and writes."""

ALIGNMENT: Final = 64
"""Arrays start at multiples of this, counted from the start of the frame."""

MAX_DIMS: Final = 8

DTYPES: Final[dict[int, np.dtype[Any]]] = {
    number: np.dtype(name).newbyteorder("<")
    for number, name in enumerate(("int32", "int64", "uint8", "uint32", "uint64", "float32", "float16", "bool"), 1)
}
"""Number on the wire -> element type; there are no others."""

_DTYPE_NUMBERS: Final = {dtype: number for number, dtype in DTYPES.items()}

# magic, version min/max, type, kind, request id, generation, epoch, sequence, plan hash, deadline, meta bytes,
# number of arrays, description bytes, total bytes, index checksum; the header's own checksum follows.
_HEADER: Final = struct.Struct("<8sHHHHQQQQQIIIIQI")
_CHECKSUM: Final = struct.Struct("<I")
_DESCRIPTION: Final = struct.Struct("<BBH")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size

_MAX_DEADLINE_MS: Final = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameLimits:
    """What a process is willing to receive in one frame."""

    max_frame_bytes: int = 1 << 30
    """The whole frame."""

    max_index_bytes: int = 16 << 20
    """JSON and descriptions of arrays."""

    max_arrays: int = 65_536

    def __post_init__(self) -> None:
        """Reject limits that let nothing through."""
        if self.max_frame_bytes < HEADER_BYTES:
            raise ValueError(f"max_frame_bytes must be at least {HEADER_BYTES}, got {self.max_frame_bytes}")


DEFAULT_LIMITS: Final = FrameLimits()


@dataclass(frozen=True, slots=True)
class Header:
    """The fixed part of a frame, checked."""

    type: int
    kind: Kind
    request_id: int
    generation: int
    epoch: int
    sequence: int
    plan_hash: int
    deadline_ms: int
    meta_bytes: int
    num_arrays: int
    description_bytes: int
    total_bytes: int
    index_checksum: int

    @property
    def deadline(self) -> Deadline:
        """When the sender stops waiting, counted from now."""
        return Deadline.after(self.deadline_ms / 1000 if self.deadline_ms else None)


def encode_frame(
    message: Message, *, kind: Kind = Kind.REQUEST, request_id: int = 0, deadline_ms: int = 0
) -> list[memoryview]:
    """Return the buffers that make up the frame, in order; arrays are not copied unless they have to be.

    >>> [len(part) for part in encode_frame(Message(type=1, arrays={"ids": np.arange(3)}))]
    [128, 24]
    """
    meta = json.dumps(dict(message.meta), separators=(",", ":"), allow_nan=False).encode()
    arrays = [_wire_array(name, array) for name, array in message.arrays.items()]
    descriptions = b"".join(_describe(name, array) for name, array in zip(message.arrays, arrays, strict=True))
    index = meta + descriptions
    head_bytes = HEADER_BYTES + len(index)
    parts, total_bytes = _lay_out(arrays, head_bytes)
    header = _HEADER.pack(
        MAGIC, VERSION, VERSION, message.type, kind, request_id, message.generation, message.epoch, message.sequence,
        message.plan_hash, min(deadline_ms, _MAX_DEADLINE_MS), len(meta), len(arrays), len(descriptions), total_bytes,
        native.crc32c(index),
    )  # fmt: skip
    padding, *rest = parts
    head = header + _CHECKSUM.pack(native.crc32c(header)) + index
    return [memoryview(head + bytes(padding)), *rest]


def decode_header(data: bytes, limits: FrameLimits = DEFAULT_LIMITS) -> Header:
    """Return the header that these bytes are; CorruptFrameError if they are none, or the frame is beyond the limits."""
    if len(data) != HEADER_BYTES:
        raise CorruptFrameError(f"a frame header has {HEADER_BYTES} bytes, got {len(data)}")
    magic, version_min, version_max, type_, kind, *numbers = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CorruptFrameError(f"a frame starts with {MAGIC!r}, got {magic!r}: the other side speaks something else")
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if checksum != native.crc32c(bytes(data[: _HEADER.size])):
        raise CorruptFrameError("the checksum of a frame header is wrong: the frame is damaged")
    if not version_min <= VERSION <= version_max:
        raise CorruptFrameError(
            f"the other side speaks frame versions {version_min} to {version_max}, this one {VERSION}; update the older"
        )
    if kind not in tuple(Kind):
        raise CorruptFrameError(f"a frame is of kind 0, 1, 2 or 3, got {kind}")
    header = Header(type_, Kind(kind), *numbers)
    _check_lengths(header, limits)
    return header


def decode_frame(header: Header, body: Array) -> Message:
    """Return the message of a header and the bytes after it, with arrays that are views of `body`."""
    index_bytes = header.meta_bytes + header.description_bytes
    if len(body) != header.total_bytes - HEADER_BYTES:
        raise CorruptFrameError(f"the frame has {header.total_bytes} bytes, got {len(body) + HEADER_BYTES}")
    index = body[:index_bytes].tobytes()
    if native.crc32c(index) != header.index_checksum:
        raise CorruptFrameError("the checksum of a frame's index is wrong: the frame is damaged")
    return Message(
        type=header.type,
        generation=header.generation,
        epoch=header.epoch,
        sequence=header.sequence,
        plan_hash=header.plan_hash,
        meta=_decode_meta(index[: header.meta_bytes]),
        arrays=_decode_arrays(header, index, body),
    )


def _wire_array(name: str, array: Array) -> Array:
    dtype = array.dtype.newbyteorder("<")
    if dtype not in _DTYPE_NUMBERS:
        known = ", ".join(str(known) for known in DTYPES.values())
        raise TypeError(f"array {name!r}: {array.dtype} cannot be sent; convert it to one of {known}")
    if array.ndim > MAX_DIMS:
        raise ValueError(f"array {name!r}: at most {MAX_DIMS} dimensions can be sent, got {array.ndim}")
    return np.require(array, dtype, ["C"])


def _describe(name: str, array: Array) -> bytes:
    name_bytes = name.encode()
    if len(name_bytes) > 0xFFFF:
        raise ValueError(f"array name {name[:40]!r}...: at most 65535 bytes can be sent, got {len(name_bytes)}")
    head = _DESCRIPTION.pack(_DTYPE_NUMBERS[array.dtype.newbyteorder("<")], array.ndim, len(name_bytes))
    return head + struct.pack(f"<{array.ndim}Q", *array.shape) + name_bytes


def _lay_out(arrays: list[Array], head_bytes: int) -> tuple[list[memoryview], int]:
    """Return paddings and arrays as they follow the head (the first is a padding), and the length of it all."""
    parts: list[memoryview] = []
    end = head_bytes
    for array in arrays:
        if array.nbytes == 0:
            continue
        start = _aligned(end)
        if start != end or not parts:
            parts.append(memoryview(bytes(start - end)))
        parts.append(array.reshape(-1).view(np.uint8).data)
        end = start + array.nbytes
    return parts or [memoryview(b"")], end


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _check_lengths(header: Header, limits: FrameLimits) -> None:
    index_bytes = header.meta_bytes + header.description_bytes
    if header.total_bytes > limits.max_frame_bytes:
        raise CorruptFrameError(
            f"a frame of {header.total_bytes} bytes is beyond the limit of {limits.max_frame_bytes}; "
            "send less at a time or raise max_frame_bytes"
        )
    if index_bytes > limits.max_index_bytes or header.num_arrays > limits.max_arrays:
        raise CorruptFrameError(
            f"a frame with {header.num_arrays} arrays and an index of {index_bytes} bytes is beyond the limits of "
            f"{limits.max_arrays} and {limits.max_index_bytes}"
        )
    if HEADER_BYTES + index_bytes > header.total_bytes:
        raise CorruptFrameError(f"a frame of {header.total_bytes} bytes cannot hold an index of {index_bytes}")
    if header.num_arrays * _DESCRIPTION.size > header.description_bytes:
        raise CorruptFrameError(f"{header.description_bytes} bytes cannot describe {header.num_arrays} arrays")


def _decode_meta(data: bytes) -> Mapping[str, Any]:
    try:
        meta = json.loads(data)
    # Deeply nested JSON ends in a RecursionError, which is no ValueError.
    except (ValueError, RecursionError) as error:
        raise CorruptFrameError(f"the meta data of a frame is not JSON: {error}") from error
    if not isinstance(meta, dict):
        raise CorruptFrameError(f"the meta data of a frame must be a JSON object, got {type(meta).__name__}")
    return meta


def _decode_arrays(header: Header, index: bytes, body: Array) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    at = header.meta_bytes
    end = HEADER_BYTES + len(index)
    for _ in range(header.num_arrays):
        name, dtype, shape, at = _decode_description(index, at)
        if name in arrays:
            raise CorruptFrameError(f"a frame has two arrays {name!r}")
        num_bytes = math.prod(shape) * dtype.itemsize
        start = _aligned(end) if num_bytes else end
        if start + num_bytes > header.total_bytes:
            raise CorruptFrameError(f"array {name!r} of shape {shape} does not fit into its frame")
        view = body[start - HEADER_BYTES : start - HEADER_BYTES + num_bytes]
        arrays[name] = _shaped(name, view, dtype, shape)
        end = start + num_bytes
    if at != len(index) or end != header.total_bytes:
        raise CorruptFrameError("a frame has bytes that belong to none of its arrays")
    return arrays


def _decode_description(index: bytes, at: int) -> tuple[str, np.dtype[Any], tuple[int, ...], int]:
    try:
        number, num_dims, name_bytes = _DESCRIPTION.unpack_from(index, at)
        at += _DESCRIPTION.size
        if number not in DTYPES or num_dims > MAX_DIMS:
            raise CorruptFrameError(f"an array of type {number} with {num_dims} dimensions is not allowed in a frame")
        shape = struct.unpack_from(f"<{num_dims}Q", index, at)
        at += 8 * num_dims
        name = index[at : at + name_bytes].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptFrameError(f"the descriptions of a frame's arrays are damaged: {error}") from error
    if at + name_bytes > len(index):
        raise CorruptFrameError("the descriptions of a frame's arrays are cut short")
    return name, DTYPES[number], shape, at + name_bytes


def _shaped(name: str, view: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    try:
        # Views keep the buffer's alignment: 64 bytes within the frame, whatever the allocator gives before it.
        return view.view(dtype).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise CorruptFrameError(f"array {name!r} cannot have shape {shape}: {error}") from error
