"""Keys of events: compared by a 64-bit hash first and by their full values after."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from monolith.data.batch import Batch
from monolith.tensors import Ragged

Hashes = NDArray[np.uint64]
Places = NDArray[np.int64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix64(values: Hashes) -> Hashes:
    """Return 64 bits that look random for each input, different ones for different inputs (SplitMix64's last steps).

    >>> hex(mix64(np.array([0x9E3779B97F4A7C15], np.uint64))[0])  # the generator's first number from seed 0
    '0xe220a8397b1dcdaf'
    """
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)


@dataclass(frozen=True, slots=True)
class Keys:
    """One key per event.

    The hash takes the columns in order: h = mix64((h xor column) + 0x9E3779B97F4A7C15), from h = 0; a column of bytes
    enters by the first 8 bytes of its BLAKE2b. Equal keys have equal hashes; `same` looks at the values themselves.
    """

    hashes: Hashes
    columns: tuple[NDArray[Any], ...]
    """Per key column: int64 numbers, or `bytes` objects."""

    @classmethod
    def of(cls, batch: Batch, names: Sequence[str]) -> Self:
        """Return the keys of a batch's events."""
        columns = tuple(_column(batch, name) for name in names)
        hashes = np.zeros(len(batch), np.uint64)
        for column in columns:
            bits = column.view(np.uint64) if column.dtype == np.int64 else _hash_bytes(column)
            hashes = mix64((hashes ^ bits) + _GOLDEN)
        return cls(hashes, columns)

    @classmethod
    def concatenate(cls, parts: Sequence["Keys"]) -> "Keys":
        """Return keys end to end."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(np.concatenate([part.hashes for part in parts]), tuple(map(np.concatenate, columns)))

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, places: Places | NDArray[np.bool_] | slice) -> "Keys":
        """Return the keys at these places."""
        return Keys(self.hashes[places], tuple(column[places] for column in self.columns))

    def same(self, places: Places, other: "Keys", other_places: Places) -> NDArray[np.bool_]:
        """Say for each pair of places whether the two keys are equal, value by value."""
        equal = np.ones(len(places), np.bool_)
        for mine, theirs in zip(self.columns, other.columns, strict=True):
            equal &= (mine[places] == theirs[other_places]).astype(np.bool_)
        return equal

    def previous(self) -> Places:
        """Return for each key the place of the last equal one before it, -1 if there is none.

        The keys must be sorted by their hashes.
        """
        places = np.arange(1, len(self))[self.hashes[1:] == self.hashes[:-1]]
        found = np.full(len(self), -1, np.int64)
        if self.same(places - 1, self, places).all():
            found[places] = places - 1
            return found
        # Different keys share a hash: once in many years. Then the values decide, one by one.
        last: dict[tuple[Any, ...], int] = {}
        for place, key in enumerate(zip(*(column.tolist() for column in self.columns), strict=True)):
            found[place] = last.get(key, -1)
            last[key] = place
        return found


def candidates(first: Hashes, second: Hashes) -> tuple[Places, Places]:
    """Return all pairs of equal hashes as places in the two, both of which must be sorted.

    Pairs of one place in the first are in the order of the second.

    >>> [places.tolist() for places in candidates(np.array([1, 2, 2], np.uint64), np.array([2, 2, 5], np.uint64))]
    [[1, 1, 2, 2], [0, 1, 0, 1]]
    """
    if len(second) < len(first):  # fewer searches; sorted ones are the quick ones
        there, here = candidates(second, first)
        order = np.argsort(here, kind="stable")
        return here[order], there[order]
    low = np.searchsorted(second, first, "left")
    hits = np.flatnonzero(second[np.minimum(low, len(second) - 1)] == first) if len(second) else low[:0]
    low = low[hits]
    counts = np.searchsorted(second, first[hits], "right") - low
    here = np.repeat(hits, counts)
    there = np.arange(len(here)) + np.repeat(low - (np.cumsum(counts) - counts), counts)
    return here, there


def _column(batch: Batch, name: str) -> NDArray[Any]:
    column = batch.columns[name]
    if not isinstance(column, Ragged):
        return column.numpy()
    joined, splits = column.values.numpy().tobytes(), column.row_splits.tolist()
    values = np.empty(len(batch), np.object_)
    values[:] = [joined[begin:end] for begin, end in zip(splits[:-1], splits[1:], strict=True)]
    return values


def _hash_bytes(values: NDArray[Any]) -> Hashes:
    digests = b"".join([hashlib.blake2b(value, digest_size=8).digest() for value in values])
    return np.frombuffer(digests, "<u8").astype(np.uint64)
