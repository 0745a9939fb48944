"""Metrics of a stream of any length, in memory that does not grow; two of a kind add up to that of both streams."""

from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

NUM_BUCKETS = 1 << 20
"""Scores that share a bucket count as equal; log-odds that differ by more than 0.00003 do not."""


class StreamingAuc:
    """The chance that a positive scores above a negative, by counting scores in buckets of equal width in log-odds.

    Buckets span probabilities from 1e-7 to 1 - 1e-7 (float32 knows none closer to 1), so that scores crowded near 0,
    as click rates are, still fall apart. The error is at most half the share of pairs that meet in one bucket.

    >>> metric = StreamingAuc()
    >>> metric.add(torch.tensor([0.1, 0.4]), torch.tensor([0.0, 0.0]))
    >>> metric.add(torch.tensor([0.4, 0.9]), torch.tensor([1.0, 1.0]))
    >>> metric.value()
    0.875
    """

    _LIMIT = float(np.log(1e7))

    def __init__(self) -> None:
        """Begin with no predictions."""
        self._positives, self._negatives = (torch.zeros(NUM_BUCKETS, dtype=torch.float64) for _ in range(2))

    def add(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Take the predictions of a batch; labels above 0.5 are positive."""
        check_same_size(scores, labels)
        logits = torch.logit(scores.detach().reshape(-1).double(), eps=1e-7).clamp(-self._LIMIT, self._LIMIT)
        places = ((logits / self._LIMIT + 1) / 2 * (NUM_BUCKETS - 1)).round().long().cpu()
        positive = labels.detach().reshape(-1).cpu() > 0.5
        values = torch.ones_like(logits) if weights is None else weights.detach().reshape(-1).double()
        for counts, chosen in ((self._positives, positive), (self._negatives, ~positive)):
            counts.index_add_(0, places[chosen], values.cpu()[chosen])

    def merge(self, other: Self) -> None:
        """Add the predictions that another one took."""
        self._positives += other._positives
        self._negatives += other._negatives

    def value(self) -> float:
        """Return the AUC; NaN without a positive or without a negative."""
        below = self._negatives.cumsum(0) - self._negatives
        pairs = float(self._positives.sum() * self._negatives.sum())
        won = float((self._positives * (below + self._negatives / 2)).sum())
        return won / pairs if pairs else float("nan")


class StreamingMean:
    """A weighted mean, such as that of losses.

    >>> mean = StreamingMean()
    >>> mean.add(1.0, weight=3)
    >>> mean.add(5.0)
    >>> mean.value()
    2.0
    """

    def __init__(self) -> None:
        """Begin with no values."""
        self._sum = self._weight = 0.0

    def add(self, value: float, weight: float = 1.0) -> None:
        """Take a value."""
        self._sum += value * weight
        self._weight += weight

    def merge(self, other: Self) -> None:
        """Add the values that another one took."""
        self._sum += other._sum
        self._weight += other._weight

    def value(self) -> float:
        """Return the mean; NaN of nothing."""
        return self._sum / self._weight if self._weight else float("nan")


class StreamingMse(StreamingMean):
    """The mean of squared differences."""

    def add_batch(self, scores: Tensor, labels: Tensor) -> None:
        """Take the predictions of a batch."""
        check_same_size(scores, labels)
        squares = (_flat(scores) - _flat(labels)) ** 2
        if len(squares):
            self.add(float(squares.mean()), len(squares))


class Calibration:
    """Mean prediction over mean label: above 1 the model promises too much.

    >>> metric = Calibration()
    >>> metric.add(torch.tensor([0.5, 0.3]), torch.tensor([1.0, 0.0]))
    >>> round(metric.value(), 3)
    0.8
    """

    def __init__(self) -> None:
        """Begin with no predictions."""
        self._scores = self._labels = 0.0

    def add(self, scores: Tensor, labels: Tensor) -> None:
        """Take the predictions of a batch."""
        check_same_size(scores, labels)
        self._scores += float(_flat(scores).sum())
        self._labels += float(_flat(labels).sum())

    def merge(self, other: Self) -> None:
        """Add the predictions that another one took."""
        self._scores += other._scores
        self._labels += other._labels

    def value(self) -> float:
        """Return the ratio; NaN without a positive label."""
        return self._scores / self._labels if self._labels else float("nan")


def check_same_size(scores: Tensor, labels: Tensor) -> None:
    """Reject a batch whose labels are not those of its predictions."""
    if scores.numel() != labels.numel():
        raise ValueError(f"there are {scores.numel()} predictions for {labels.numel()} labels")


def _flat(values: Tensor) -> npt.NDArray[np.float64]:
    return values.detach().reshape(-1).double().cpu().numpy()
