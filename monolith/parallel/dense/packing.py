"""Tensors of known types and shapes as one array of bytes, and back."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from monolith.errors import shown
from monolith.wire import Array

DTYPES: Final = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    )
}  # fmt: skip
"""Name on the wire -> element type; there are no others."""

_ALIGNMENT: Final = 16
_MAX_DIMS: Final = 64


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """Name, element type and shape of a tensor."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @classmethod
    def of(cls, name: str, tensor: Tensor) -> "PackedTensor":
        """Return the spec of a tensor; ValueError if it cannot be sent."""
        if tensor.dtype not in DTYPES.values() or tensor.layout != torch.strided:
            raise ValueError(f"{name} is of {tensor.dtype}, {tensor.layout}; a parameter server keeps {list(DTYPES)}")
        return cls(name, tensor.dtype, tuple(tensor.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def to_json(self) -> list[Any]:
        """Return plain values."""
        return [self.name, str(self.dtype).removeprefix("torch."), list(self.shape)]

    @classmethod
    def from_json(cls, value: object) -> "PackedTensor":
        """Return what `to_json` gave; ValueError if it is something else."""
        match value:
            case [str(name), str(dtype), [*shape]] if dtype in DTYPES and len(shape) <= _MAX_DIMS:
                sizes = [size for size in shape if isinstance(size, int) and 0 <= size < 1 << 48]
                if len(sizes) == len(shape):
                    return cls(name, DTYPES[dtype], tuple(sizes))
        raise ValueError(f"a tensor is described by name, type ({', '.join(DTYPES)}) and shape, got {shown(value)}")


class Packing:
    """Where the tensors of a list of specs lie in one array of bytes."""

    def __init__(self, specs: Iterable[PackedTensor]) -> None:
        """Give every tensor its place, in order."""
        self.specs = tuple(specs)
        self._places: list[tuple[int, int]] = []
        end = 0
        for spec in self.specs:
            begin = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = begin + spec.nbytes
            self._places.append((begin, end))
        self.nbytes = end
        dtypes = {spec.dtype for spec in self.specs}
        self._dtype = dtypes.pop() if len(dtypes) == 1 else None  # of all of them, as in most models
        self._strides = [_strides(spec.shape) for spec in self.specs]

    def pack(self, tensors: Sequence[Tensor | None]) -> Array:
        """Return the tensors' bytes; a missing tensor leaves its place as zeros."""
        packed = torch.zeros(self.nbytes, dtype=torch.uint8)
        copy_all(
            [(view, tensor) for view, tensor in zip(self._views(packed), tensors, strict=True) if tensor is not None]
        )
        array: Array = packed.numpy()
        return array

    def unpack(self, array: Array | None) -> list[Tensor]:
        """Return the tensors, as views of the array; ValueError if its length is another."""
        if array is None or array.dtype != np.uint8 or array.shape != (self.nbytes,):
            got = "no array" if array is None else f"{array.dtype} of shape {array.shape}"
            raise ValueError(f"expected the {self.nbytes} bytes of {len(self.specs)} tensors, got {got}")
        return self._views(_tensor(array))

    def first_not_finite(self, array: Array) -> str | None:
        """Return the name of the first packed tensor that has NaN or infinity in it; None if all are finite."""
        # A sum is finite only if all of it is, and adding up is one pass; only then is it looked at more closely.
        if self._dtype is not None and bool(torch.isfinite(_tensor(array).view(self._dtype).sum())):
            return None
        pairs = zip(self.specs, self.unpack(array), strict=True)
        return next((spec.name for spec, tensor in pairs if not bool(torch.isfinite(tensor).all())), None)

    def _views(self, packed: Tensor) -> list[Tensor]:
        if self._dtype is not None:  # the same with fewer calls: a model of many small tensors is packed in every step
            flat, size = packed.view(self._dtype), self._dtype.itemsize
            return [
                flat.as_strided(spec.shape, strides, begin // size)
                for spec, strides, (begin, _) in zip(self.specs, self._strides, self._places, strict=True)
            ]
        return [
            packed[begin:end].view(spec.dtype).view(spec.shape)
            for spec, (begin, end) in zip(self.specs, self._places, strict=True)
        ]


def copy_all(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Copy the second tensor of every pair into the first."""
    if pairs:
        with torch.no_grad():
            torch._foreach_copy_([to for to, _ in pairs], [source for _, source in pairs])


def _tensor(array: Array) -> Tensor:
    """Return bytes as a tensor whose elements may be of any type; a copy only if they lie askew."""
    return torch.from_numpy(array if array.ctypes.data % _ALIGNMENT == 0 and array.flags.writeable else array.copy())


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return how many elements apart neighbours of each dimension are."""
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


def pack_named(tensors: Mapping[str, Tensor]) -> tuple[list[list[Any]], Array]:
    """Return descriptions and bytes of any tensors.

    >>> named = {"weight": torch.tensor([1.5, 2.5]), "step": torch.tensor(3)}
    >>> unpack_named(*pack_named(named))
    {'weight': tensor([1.5000, 2.5000]), 'step': tensor(3)}
    """
    specs = [PackedTensor.of(name, tensor) for name, tensor in tensors.items()]
    return [spec.to_json() for spec in specs], Packing(specs).pack(list(tensors.values()))


def unpack_named(described: object, array: Array | None) -> dict[str, Tensor]:
    """Return what `pack_named` took; ValueError if it is not whole."""
    if not isinstance(described, list):
        raise ValueError(f"expected a list of tensors, got {shown(described)}")
    packing = Packing([PackedTensor.from_json(one) for one in described])
    return {spec.name: tensor for spec, tensor in zip(packing.specs, packing.unpack(array), strict=True)}
