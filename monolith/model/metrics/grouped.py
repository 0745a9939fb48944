"""AUC within groups: how well each user's own items are ordered."""

import numpy as np
import numpy.typing as npt
from torch import Tensor

from monolith.model.metrics.streaming import check_same_size


class GroupedAuc:
    """The mean of each group's AUC, weighted by its events; groups without both labels have none and do not count.

    Exact; it keeps 16 bytes per prediction.

    >>> import torch
    >>> metric = GroupedAuc()
    >>> scores = torch.tensor([0.1, 0.9, 0.8, 0.2, 0.5])
    >>> metric.add(scores, torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0]), torch.tensor([7, 7, 8, 8, 9]))
    >>> metric.value(), metric.num_groups()
    (0.5, 2)
    """

    def __init__(self) -> None:
        """Begin with no predictions."""
        self._parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.bool_]]] = []

    def add(self, scores: Tensor, labels: Tensor, groups: Tensor) -> None:
        """Take the predictions of a batch, each with the id of its group."""
        check_same_size(scores, labels)
        check_same_size(scores, groups)
        flat = [values.detach().reshape(-1).cpu().numpy() for values in (groups, scores.float(), labels)]
        self._parts.append((flat[0].astype(np.int64), flat[1].copy(), flat[2] > 0.5))

    def value(self) -> float:
        """Return the mean; NaN if no group has both labels."""
        aucs, sizes = self._per_group()
        return float((aucs * sizes).sum() / sizes.sum()) if len(sizes) else float("nan")

    def num_groups(self) -> int:
        """Return how many groups have both labels."""
        return len(self._per_group()[0])

    def _per_group(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        if not self._parts:
            return np.zeros(0), np.zeros(0)
        groups, scores, labels = (np.concatenate([part[i] for part in self._parts]) for i in range(3))
        order = np.lexsort((scores, groups))
        groups, scores, labels = groups[order], scores[order], labels[order]
        begins = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
        sizes = np.diff(np.append(begins, len(groups)))
        ranks = _tied_ranks(groups, scores) - np.repeat(begins, sizes)
        positives = np.add.reduceat(labels.astype(np.float64), begins)
        negatives = sizes - positives
        sums = np.add.reduceat(np.where(labels, ranks, 0.0), begins)
        both = (positives > 0) & (negatives > 0)
        # Sum of the positives' ranks, less what they would have among themselves, is the number of pairs they win.
        won = sums - positives * (positives + 1) / 2
        return won[both] / (positives * negatives)[both], sizes[both].astype(np.float64)


def _tied_ranks(groups: npt.NDArray[np.int64], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return ranks from 1 in the whole order, those of equal scores in one group being their mean."""
    new = np.concatenate([[True], (scores[1:] != scores[:-1]) | (groups[1:] != groups[:-1])])
    begins = np.flatnonzero(new)
    sizes = np.diff(np.append(begins, len(scores)))
    return np.repeat(begins + (sizes + 1) / 2, sizes)
