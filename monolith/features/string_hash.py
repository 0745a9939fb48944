"""The 64-bit hash that makes ids of strings and of raw values: CityHash64, version 1.1.

The hash is fixed for good: an id made today names the same row in every later version, and in any other program that
uses the same hash. Results are int64, as ids are; the bits are those of the unsigned hash.

`ids_of_texts` is what a column of type "hash" does with its values, wherever they come from.
"""

from collections.abc import Iterable
from numbers import Integral
from typing import Any, TypeAlias

import torch
from torch import Tensor

from monolith._core import native
from monolith.features.kept_strings import noted
from monolith.tensors import Ragged

Text: TypeAlias = str | bytes | int
"""What a column of type "hash" takes; a whole number counts as its decimal text."""


def text_bytes(value: object) -> bytes:
    r"""Return the bytes that are hashed: text as UTF-8, bytes as they are, whole numbers as decimal text.

    >>> text_bytes("café"), text_bytes(b"\xff"), text_bytes(-7)
    (b'caf\xc3\xa9', b'\xff', b'-7')

    Raises:
        ValueError: It is something else, such as 7.0: whether that is "7" or "7.0" is for the caller to say.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{value!r} is neither text, bytes nor a whole number; convert it to text first")
    return str(int(value)).encode()


def ids_of_texts(values: Iterable[Text | None], missing: Text = "") -> Tensor:
    """Return the int64 ids of texts, as a column of type "hash" has them; None reads as `missing`.

    >>> ids = ids_of_texts(["toy story", b"toy story", None, 7, "7"])
    >>> bool(ids[0] == ids[1]), bool(ids[2] == hash_bytes(b"")), bool(ids[3] == ids[4])
    (True, True, True)
    """
    stand_in = text_bytes(missing)
    rows: list[Any] = [stand_in if value is None else text_bytes(value) for value in values]
    return hash_byte_rows(Ragged.from_bytes(rows))


def hash_bytes(value: bytes) -> int:
    """Return the hash of one byte string as a signed 64-bit number.

    >>> hash_bytes(b"")
    -7286425919675154353
    """
    unsigned: int = native.city_hash64(value)
    return unsigned - (unsigned >> 63 << 64)


def hash_byte_rows(column: Ragged) -> Tensor:
    """Return the int64 hash of each row of a column of byte strings.

    >>> column = Ragged.from_bytes([b"user_42", b""])
    >>> hash_byte_rows(column).tolist() == [hash_bytes(b"user_42"), hash_bytes(b"")]
    True
    """
    if column.values.dtype != torch.uint8 or column.values.dim() != 1:
        raise TypeError(f"a column of byte strings has uint8 values, got {column.values.dtype}; see Ragged.from_bytes")
    out = torch.empty(column.num_rows, dtype=torch.int64)
    with noted() as texts:
        native.city_hash64_rows(_native_view(column.values), _native_view(column.row_splits), out, texts)
    return out.to(column.values.device)


def hash_values(values: Tensor) -> Tensor:
    """Return, in the same shape, the int64 hash of the 8 little-endian bytes of each int64 value.

    >>> bool(hash_values(torch.tensor([185])) == hash_bytes((185).to_bytes(8, "little")))
    True
    """
    if values.dtype != torch.int64:
        raise TypeError(f"values must be int64, got {values.dtype}; convert with .to(torch.int64)")
    out = torch.empty(values.numel(), dtype=torch.int64)
    native.city_hash64_values(_native_view(values.reshape(-1)), out)
    return out.view(values.shape).to(values.device)


def _native_view(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous()
