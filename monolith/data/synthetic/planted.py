"""What made-up worlds are drawn from: ranks of a Zipf distribution, probabilities, and the AUC these allow."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from monolith.data.synthetic.latent_taste import Floats, Ints

Columns = dict[str, np.ndarray[Any, Any]]

BLOCK = 8192
"""Events that are made at once."""


class EventBlocks:
    """Events cut from blocks that are made whole, so that none depends on which others are asked for.

    >>> blocks = EventBlocks(lambda number: {"seq": np.arange(number * BLOCK, (number + 1) * BLOCK)})
    >>> blocks.columns(BLOCK - 1, 2)["seq"].tolist()
    [8191, 8192]

    Args:
        make_block: Returns the columns of a block, `BLOCK` events each, by its number.
    """

    def __init__(self, make_block: Callable[[int], Columns]) -> None:
        self._make_block = make_block
        self._last: tuple[int, Columns] = (-1, {})

    def columns(self, first: int, count: int) -> Columns:
        """Return events `first` to `first + count - 1`; the arrays belong to the caller."""
        if first < 0 or count < 0:
            raise ValueError(f"first and count must not be negative, got {first} and {count}")
        numbers = range(first // BLOCK, max(first + count - 1, first) // BLOCK + 1)
        blocks = [self._block(number) for number in numbers]
        begin = first - numbers[0] * BLOCK
        if len(blocks) == 1:
            return {name: column[begin : begin + count].copy() for name, column in blocks[0].items()}
        cuts = [slice(begin, None), *[slice(None)] * (len(blocks) - 2), slice(0, first + count - numbers[-1] * BLOCK)]
        return {
            name: np.concatenate([block[name][cut] for block, cut in zip(blocks, cuts, strict=True)])
            for name in blocks[0]
        }

    def _block(self, number: int) -> Columns:
        if self._last[0] != number:
            self._last = (number, self._make_block(number))
        return self._last[1]


def zipf_ranks(draw: Floats, size: Floats | np.float64, exponent: float) -> Ints:
    """Return ranks from 0 to `size - 1`, of which rank r has a share that falls like (r + 1) ** -exponent.

    The inverse of the continuous distribution on [1, size + 1): one power per draw, for any size.

    >>> zipf_ranks(np.array([0.0, 0.5, 1.0]), np.float64(100), 0.5).tolist()
    [0, 29, 99]
    """
    power = 1 - exponent
    ranks = np.power(draw * (np.power(size + 1, power) - 1) + 1, 1 / power)
    result: Ints = np.minimum(ranks, size).astype(np.int64) - 1  # rounding must not reach size + 1
    return result


def sigmoid(logit: Floats) -> Floats:
    """Return the probability that log-odds stand for."""
    result: Floats = 1 / (1 + np.exp(-logit))
    return result


def area_under_curve(labels: np.ndarray[Any, Any], scores: Floats) -> float:
    """Return the share of (positive, negative) pairs that the scores put in the right order; a tie counts half.

    >>> area_under_curve(np.array([0.0, 1.0, 1.0]), np.array([0.2, 0.2, 0.9]))
    0.75
    """
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    positive = labels > 0.5
    num_positive, num_negative = int(positive.sum()), int((~positive).sum())
    if not num_positive or not num_negative:
        return math.nan
    above = mean_rank[places][positive].sum() - num_positive * (num_positive + 1) / 2
    return float(above / (num_positive * num_negative))
