"""How good recent predictions were."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from monolith.errors import CorruptFileError

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

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of what it holds, to be saved; labels as what counts of them, above 0.5 or not."""
        used = len(self)
        return {
            "scores": torch.from_numpy(self._scores[:used].copy()),
            "labels": torch.from_numpy(self._labels[:used] > 0.5),
            "added": torch.tensor(self._num_added),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Become what `tensors` returned; a window of another size takes the newest it has room for.

        Raises:
            CorruptFileError: They are not of a window.
        """
        scores, labels, added = (tensors.get(name) for name in ("scores", "labels", "added"))
        if scores is None or labels is None or added is None or added.dtype != torch.int64 or added.dim() != 0:
            raise CorruptFileError("the saved metrics are not those of a window of predictions")
        used, num_added = scores.numel(), int(added)
        kinds = scores.dtype, labels.dtype, scores.dim(), tuple(labels.shape)
        if kinds != (torch.float32, torch.bool, 1, (used,)) or num_added < used:
            raise CorruptFileError(f"the saved metrics hold {used} predictions of {kinds}, and {num_added} were added")
        # Where a full window begins counts: sums of the same numbers in another order differ in the last bit.
        begin = num_added % used if num_added > used else 0
        if used <= len(self._scores) and (begin == 0 or used == len(self._scores)):
            self._scores[:used], self._labels[:used] = scores.numpy(), labels.numpy()
            self._num_added = num_added if used == len(self._scores) else used
            return
        self._num_added = 0
        self.add(scores.roll(-begin), labels.float().roll(-begin))
