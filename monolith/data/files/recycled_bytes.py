"""RecycledBytes: memory for batch after batch without asking the system for fresh pages each time."""

import sys
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_MAX_ARRAYS = 4
_SMALL_BYTES = 32 << 10
_NUM_OWN_REFERENCES = 3
"""Of an array that nobody uses: the list's, the loop's and that of the call that counts."""


class RecycledBytes:
    """Hands out arrays and takes those again whose last user is gone: tensors and views over an array keep it in use.

    Fresh memory costs more than to fill it: the system clears every page of it first.
    """

    def __init__(self) -> None:
        self.last_size = 0
        """What the last user needed in the end; the next will need about as much."""
        self._arrays: list[Bytes] = []

    def take(self, size: int) -> Bytes:
        """Return an array of so many bytes or more, of any content, at which nobody else looks."""
        if size < _SMALL_BYTES:
            return np.empty(_SMALL_BYTES, np.uint8)
        for array in self._arrays:
            if sys.getrefcount(array) == _NUM_OWN_REFERENCES and size <= len(array) <= 4 * size:
                return array
        array = np.empty(size + size // 8, np.uint8)
        self._arrays = [*self._arrays[1 - _MAX_ARRAYS :], array]
        return array
