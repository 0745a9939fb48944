"""How good recent predictions were."""

import numpy as np
import numpy.typing as npt
from torch import Tensor

Floats = npt.NDArray[np.float64]

_SMALLEST = 1e-7
"""Probabilities are kept this far from 0 and 1: float32 knows no closer ones, and ln 0 is not a loss."""


def auc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the chance that a positive scores above a negative, ties counted half; NaN without one of either.

    >>> auc([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1])
    0.875
    """
    values, liked = np.asarray(scores, np.float64), np.asarray(labels) > 0.5
    positives, negatives = values[liked], np.sort(values[~liked])
    if not len(positives) or not len(negatives):
        return float("nan")
    below = np.searchsorted(negatives, positives, "left").sum()
    not_above = np.searchsorted(negatives, positives, "right").sum()
    return float(below + not_above) / (2.0 * len(positives) * len(negatives))


def logloss(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean of -ln p(label); NaN for no predictions.

    >>> round(logloss([0.5, 0.5], [0, 1]), 4)
    0.6931
    """
    values, liked = np.asarray(scores, np.float64), np.asarray(labels) > 0.5
    if not len(values):
        return float("nan")
    chosen = np.clip(np.where(liked, values, 1 - values), _SMALLEST, 1)
    return float(-np.log(chosen).mean())


class PredictionWindow:
    """The last `size` predictions with their labels: exact metrics of the recent past.

    >>> import torch
    >>> window = PredictionWindow(2)
    >>> window.add(torch.tensor([0.9, 0.2, 0.8]), torch.tensor([0.0, 0.0, 1.0]))
    >>> len(window), window.auc()
    (2, 1.0)
    """

    def __init__(self, size: int) -> None:
        """Make an empty window."""
        if size < 1:
            raise ValueError(f"a window needs room for at least one prediction, got size {size}")
        self._scores, self._labels = (np.zeros(size, np.float32) for _ in range(2))
        self._num_added = 0

    def __len__(self) -> int:
        """Return how many predictions the window holds."""
        return min(self._num_added, len(self._scores))

    def add(self, scores: Tensor, labels: Tensor) -> None:
        """Take the predictions of a batch; the oldest make room."""
        if scores.numel() != labels.numel():
            raise ValueError(f"there are {scores.numel()} predictions for {labels.numel()} labels")
        size = len(self._scores)
        new = min(size, scores.numel())
        begin = self._num_added % size
        until_end = min(new, size - begin)
        for column, values in ((self._scores, scores), (self._labels, labels)):
            newest = values.detach().reshape(-1)[values.numel() - new :].float().cpu().numpy()
            column[begin : begin + until_end] = newest[:until_end]
            column[: new - until_end] = newest[until_end:]
        self._num_added += new

    def auc(self) -> float:
        """Return the AUC of the window."""
        return auc(self._scores[: len(self)], self._labels[: len(self)])

    def logloss(self) -> float:
        """Return the mean log loss of the window."""
        return logloss(self._scores[: len(self)], self._labels[: len(self)])
