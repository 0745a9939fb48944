"""Tensors on their way to a device: through pinned memory and a stream of their own where there is CUDA."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

from monolith.tensors import Ragged, map_leaves

T = TypeVar("T")


class InFlight(Generic[T]):
    """A structure whose tensors may still be on their way."""

    def __init__(self, value: T, copying: torch.cuda.Stream | None = None) -> None:
        """Take the structure, and the stream that copies it, if one does."""
        self._value = value
        self._device = None if copying is None else copying.device
        self._arrived = None if copying is None else copying.record_event()

    def receive(self) -> T:
        """Return the structure for use by the present stream, which waits for it; this thread does not."""
        if self._arrived is not None:
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(self._arrived)
            # The memory was got for the copying stream: it must not be given away while this one still reads it.
            map_tensors(self._value, lambda tensor: _recorded(tensor, stream))
        return self._value


class DeviceCopier:
    """Copies all tensors of nested structures to one device.

    Structures are dicts, lists, tuples, dataclasses such as `Batch`, and `Ragged`; what holds no tensor stays as it is.

    >>> copied = DeviceCopier("cpu").send({"x": torch.tensor([1, 2]), "name": "y"}).receive()
    >>> copied["x"].device.type, copied["name"]
    ('cpu', 'y')

    Args:
        device: The destination; None leaves everything where it is.
    """

    def __init__(self, device: torch.device | str | None) -> None:
        self._device = None if device is None else torch.device(device)
        self._stream: torch.cuda.Stream | None = None
        if self._device is not None and self._device.type == "cuda":
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            self._device = self._stream.device

    def send(self, value: T) -> InFlight[T]:
        """Begin to copy; the structure given must not be changed until the copy was received and used."""
        device = self._device
        if device is None:
            return InFlight(value)
        if self._stream is None:
            return InFlight(map_tensors(value, lambda tensor: tensor.to(device)))
        with torch.cuda.device(device), torch.cuda.stream(self._stream):
            moved = map_tensors(value, lambda tensor: _to_gpu(tensor, device))
            return InFlight(moved, self._stream)


def copied_ahead(values: Iterable[T], device: torch.device | str, ahead: int = 1) -> Iterator[T]:
    """Yield the structures with their tensors on the device, `ahead` of them being on their way meanwhile.

    >>> [value["x"].item() for value in copied_ahead([{"x": torch.tensor(i)} for i in range(3)], "cpu")]
    [0, 1, 2]
    """
    if ahead < 0:
        raise ValueError(f"ahead must not be negative, got {ahead}")
    copier = DeviceCopier(device)
    on_the_way: deque[InFlight[T]] = deque()
    for value in values:
        on_the_way.append(copier.send(value))
        if len(on_the_way) > ahead:
            yield on_the_way.popleft().receive()
    while on_the_way:
        yield on_the_way.popleft().receive()


def map_tensors(value: T, function: Callable[[Tensor], Tensor]) -> T:
    """Return the structure with `function(tensor)` for each tensor, row splits of `Ragged` included."""

    def map_leaf(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return function(leaf)
        if isinstance(leaf, Ragged):
            return Ragged.unchecked(function(leaf.values), function(leaf.row_splits))
        if isinstance(leaf, Mapping):
            return {key: map_tensors(part, function) for key, part in leaf.items()}
        if is_dataclass(leaf) and not isinstance(leaf, type):
            changed = {field.name: map_tensors(getattr(leaf, field.name), function) for field in fields(leaf)}
            return replace(leaf, **changed)
        return leaf

    return cast(T, map_leaves(value, map_leaf))


def _to_gpu(tensor: Tensor, device: torch.device) -> Tensor:
    if tensor.device.type == "cpu" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _recorded(tensor: Tensor, stream: torch.cuda.Stream) -> Tensor:
    if tensor.is_cuda:
        tensor.record_stream(stream)
    return tensor
