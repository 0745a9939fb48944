"""The ids touched since somebody last took them, in bounded memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

from monolith._core import native

TOUCHED_KEY_SET_CAPACITY = 64 * 1024 * 1024 // (8 * 4)
"""More ids than this, and the set drops them all."""

TOUCHED_KEY_SET_CONCURRENCY_LEVEL = 1024
"""Number of locks the ids are spread over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TouchedKeySetHandle:
    """A native set and the name it goes by."""

    name: str

    native_set: native.TouchedKeySet


def create_touched_key_set(capacity: int, concurrency_level: int, name_suffix: str = "") -> TouchedKeySetHandle:
    """Return a new, empty set named ``"MonolithTouchedKeySet" + name_suffix``.

    Sets share nothing, not even under one name.
    """
    if capacity < 1 or concurrency_level < 1:
        raise ValueError(
            f"touched key set {name_suffix!r}: capacity and concurrency_level must be positive, "
            f"got {capacity} and {concurrency_level}"
        )
    return TouchedKeySetHandle(
        name="MonolithTouchedKeySet" + name_suffix, native_set=native.TouchedKeySet(capacity, concurrency_level)
    )


class TouchedKeySet:
    """A thread-safe set of ids that drops everything once it holds more than `capacity`.

    The name honours `name_suffix`, which the original ignored.

    >>> touched = TouchedKeySet(capacity=1000, concurrency_level=1)
    >>> touched.insert(torch.tensor([[3, 1], [3, 2]]))
    0
    >>> touched.steal().sort().values
    tensor([1, 2, 3])
    >>> len(touched)
    0
    """

    def __init__(
        self,
        capacity: int = TOUCHED_KEY_SET_CAPACITY,
        concurrency_level: int = TOUCHED_KEY_SET_CONCURRENCY_LEVEL,
        name_suffix: str = "",
    ) -> None:
        """Make an empty set; memory is taken as ids arrive."""
        self._capacity = capacity
        self._concurrency_level = concurrency_level
        self._set = create_touched_key_set(capacity, concurrency_level, name_suffix)

    @property
    def name(self) -> str:
        """``"MonolithTouchedKeySet"`` and the suffix."""
        return self._set.name

    @property
    def capacity(self) -> int:
        """How many ids it holds before an insert clears it."""
        return self._capacity

    def insert(self, ids: Tensor) -> int:
        """Insert int64 ids of any shape, in row-major order, and return how many ids were dropped on the way.

        An insert that finds more than `capacity` ids in the set drops them all first.
        """
        if ids.dtype != torch.int64:
            raise TypeError(f"touched ids must be int64, got {ids.dtype}; convert them with .long()")
        dropped: int = self._set.native_set.insert(ids.detach().cpu().contiguous().view(-1))
        return dropped

    def steal(self) -> Tensor:
        """Return all ids, in no particular order, and leave the set empty."""
        return torch.from_numpy(self._set.native_set.steal())

    def __len__(self) -> int:
        """Return the number of ids in the set."""
        return len(self._set.native_set)
