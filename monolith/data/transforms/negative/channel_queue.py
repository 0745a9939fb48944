"""The items of one channel, oldest first."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from monolith.data.batch import slice_rows
from monolith.tensors import Ragged

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Timeline:
    """What a queue was after each push of a batch, in numbers that count all items ever queued."""

    begins: Ints
    """Number of the oldest item."""

    ends: Ints
    """Number behind the newest item."""


class ChannelQueue:
    """Up to `max_items` different items, first in, first out.

    An item is kept as it was when it came; while it is here, coming again only counts. Items are numbered in the order
    in which they came, from `begin` to `end - 1`; the number of an item stays when others leave.

    Pushing keeps the items that it drives out until `drop_old`, so that draws for earlier events of the batch find
    them.
    """

    def __init__(self, max_items: int) -> None:
        """Make an empty queue."""
        self.max_items = max_items
        self.begin = 0
        self.gids: Ints = np.empty(0, np.int64)
        self.origin_counts: Ints = np.empty(0, np.int64)
        self.sample_counts: Ints = np.empty(0, np.int64)
        self.features: dict[str, Ragged] = {}
        self._sorted_gids: Ints = np.empty(0, np.int64)  # with the number of each, to find items without a search
        self._sorted_numbers: Ints = np.empty(0, np.int64)

    @classmethod
    def of(
        cls,
        max_items: int,
        *,
        gids: Ints,
        origin_counts: Ints,
        sample_counts: Ints,
        features: Mapping[str, Ragged],
    ) -> "ChannelQueue":
        """Return a queue of the given items, oldest first; if there are too many, of the newest.

        Raises:
            ValueError: The arrays differ in length, or an item is there twice.
        """
        lengths = [len(gids), len(origin_counts), len(sample_counts), *(rows.num_rows for rows in features.values())]
        if len(set(lengths)) > 1 or len(np.unique(gids)) < len(gids):
            raise ValueError(f"a queue needs different items and one value of each kind per item, got {lengths}")
        queue = cls(max_items)
        queue._append(gids, features)
        queue.origin_counts, queue.sample_counts = origin_counts.copy(), sample_counts.copy()
        queue.drop_old()
        return queue

    @property
    def end(self) -> int:
        """Number that the next item will have."""
        return self.begin + len(self.gids)

    def __len__(self) -> int:
        return len(self.gids)

    def push(self, gids: Ints, features: Mapping[str, Ragged]) -> Timeline:
        """Push items in order, and return what the queue was after each.

        Args:
            gids: Item of each push.
            features: Rows of each push.
        """
        begins, ends = np.empty(len(gids), np.int64), np.empty(len(gids), np.int64)
        first = 0
        while first < len(gids):
            # Which pushes are new is known up to the first whose item was driven out by those before it.
            first = self._push_some(gids, features, first, begins, ends)
        return Timeline(begins, ends)

    def gather(self, numbers: Ints) -> dict[str, Ragged]:
        """Return the features of the items with these numbers."""
        return index_rows(self.features, numbers - self.begin)

    def count_samples(self, numbers: Ints) -> Ints:
        """Count draws of items, in order, and return how often each was drawn by then."""
        places = numbers - self.begin
        order = np.argsort(places, kind="stable")
        ranked = places[order]
        is_new = np.concatenate([[True], ranked[1:] != ranked[:-1]]) if len(ranked) else np.empty(0, bool)
        runs = np.flatnonzero(is_new)
        within = np.arange(len(ranked)) - np.repeat(runs, np.diff(np.append(runs, len(ranked))))
        counts = np.empty(len(places), np.int64)
        counts[order] = self.sample_counts[ranked] + within + 1
        np.add.at(self.sample_counts, places, 1)
        return counts

    def drop_old(self) -> None:
        """Let go of the items that were driven out."""
        excess = len(self.gids) - self.max_items
        if excess > 0:
            self.begin += excess
            self.gids, self.origin_counts, self.sample_counts = (
                array[excess:] for array in (self.gids, self.origin_counts, self.sample_counts)
            )
            self.features = {name: _slice(column, excess, len(self.gids)) for name, column in self.features.items()}
            is_here = self._sorted_numbers >= self.begin
            self._sorted_gids, self._sorted_numbers = self._sorted_gids[is_here], self._sorted_numbers[is_here]

    def _push_some(self, gids: Ints, features: Mapping[str, Ragged], first: int, begins: Ints, ends: Ints) -> int:
        """Push from `first` on, as far as it is clear which items are new; return where it is not."""
        pushed = gids[first:]
        numbers = self._numbers_of(pushed)
        _, firsts, inverse = np.unique(pushed, return_index=True, return_inverse=True)
        is_first = np.zeros(len(pushed), bool)
        is_first[firsts] = True
        is_new = is_first & (numbers < 0)
        after = self.end + np.cumsum(is_new)
        oldest = np.maximum(after - self.max_items, self.begin)
        # Number of the item each push means: one here before, or one that came with this batch.
        own = np.where(is_new, after - 1, numbers)[firsts][inverse]
        gone = np.flatnonzero(~is_new & (own < oldest))
        stop = int(gone[0]) if len(gone) else len(pushed)
        begins[first : first + stop], ends[first : first + stop] = oldest[:stop], after[:stop]
        self._append(pushed[:stop][is_new[:stop]], index_rows(features, first + np.flatnonzero(is_new[:stop])))
        np.add.at(self.origin_counts, own[:stop] - self.begin, 1)
        return first + stop

    def _numbers_of(self, gids: Ints) -> Ints:
        """Return the number of each item that is here; -1 for others, and for those driven out."""
        if not len(self._sorted_gids):
            return np.full(len(gids), -1, np.int64)
        # Behind the last of equal ones: an item that came again stands there twice, the newer behind.
        places = np.maximum(np.searchsorted(self._sorted_gids, gids, side="right") - 1, 0)
        numbers = self._sorted_numbers[places]
        is_here = (self._sorted_gids[places] == gids) & (numbers >= max(self.begin, self.end - self.max_items))
        return np.where(is_here, numbers, -1)

    def _append(self, gids: Ints, features: Mapping[str, Ragged]) -> None:
        if not len(gids):
            return
        if len(self.gids) and features.keys() != self.features.keys():
            raise ValueError(
                f"items come with the features {', '.join(features) or 'none'}, those of the pool have "
                f"{', '.join(self.features) or 'none'}; begin with a new pool"
            )
        zeros = np.zeros(len(gids), np.int64)
        order = np.argsort(gids, kind="stable")
        places = np.searchsorted(self._sorted_gids, gids[order], side="right")
        self._sorted_gids = np.insert(self._sorted_gids, places, gids[order])
        self._sorted_numbers = np.insert(self._sorted_numbers, places, self.end + order)
        self.features = {
            name: Ragged.concat([self.features[name], column]) if name in self.features else column
            for name, column in features.items()
        }
        self.gids = np.concatenate([self.gids, gids])
        self.origin_counts = np.concatenate([self.origin_counts, zeros])
        self.sample_counts = np.concatenate([self.sample_counts, zeros])


def index_rows(features: Mapping[str, Ragged], places: Ints) -> dict[str, Ragged]:
    """Return the rows at some places of each feature."""
    indices = torch.from_numpy(places)
    return {name: rows.index_rows(indices) for name, rows in features.items()}


def _slice(column: Ragged, begin: int, count: int) -> Ragged:
    rows = slice_rows(column, begin, begin + count)
    assert isinstance(rows, Ragged)
    # A copy: a view would keep the memory of all items that ever were.
    return Ragged(rows.values.clone(), rows.row_splits)
