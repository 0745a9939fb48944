"""RecycledBytes: memory for batch after batch without asking the system for fresh pages each time."""

import sys
import threading
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith._core import native

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_MAX_ARRAYS = 6
_SMALL_BYTES = 32 << 10
_MOST_FLOATS = 16 << 20
"""More than a batch has: memory for a larger tensor is not kept."""

_FLOAT_BYTES = 4


def _num_references(arrays: list[Bytes], index: int) -> int:
    return sys.getrefcount(arrays[index])


# Measured, not written down: interpreters differ in what they count.
_UNUSED = _num_references([np.empty(1, np.uint8)], 0)


class RecycledBytes:
    """Hands out arrays and takes those again whose last user is gone: tensors and views over an array keep it in use.

    Fresh memory costs more than to fill it: the system clears every page of it first. Several threads may take.
    """

    def __init__(self) -> None:
        self.last_size = 0
        """What the last user needed in the end; the next will need about as much."""
        self._arrays: list[Bytes] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> Bytes:
        """Return an uninitialised array of at least this many bytes that nobody else uses."""
        if size < _SMALL_BYTES:
            return np.empty(_SMALL_BYTES, np.uint8)
        with self._lock:
            for index in range(len(self._arrays)):
                if _num_references(self._arrays, index) == _UNUSED and size <= len(self._arrays[index]) <= 4 * size:
                    unused = self._arrays[index]  # from here on it counts as used
                    return unused
            # It begins at a cache line, as torch's memory does: elsewhere the last bits of matrix products may differ.
            # Large arrays are on huge pages: a batch goes through its array several times, each page a miss every time.
            array: Bytes = native.huge_empty(size + size // 8)
            self._arrays = [*self._arrays[1 - _MAX_ARRAYS :], array]
            return array

    def floats(self, count: int) -> Tensor:
        """Return an uninitialised tensor of `count` float32 over memory that nobody else uses."""
        size = _FLOAT_BYTES * count
        if size < _SMALL_BYTES or count > _MOST_FLOATS:
            return torch.empty(count)
        return torch.from_numpy(self.take(size)[:size].view(np.float32))
