"""Filter by the labels of an event."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.transforms.labels.column import padded_labels
from monolith.data.transforms.step import Filter


@dataclass(frozen=True)
class FilterByLabel(Filter):
    """Keeps events of which at least one label is above its threshold.

    An event with fewer labels than there are thresholds is dropped; labels beyond them do not count.

    >>> batch = Batch({"label": torch.tensor([[0.0, 1.0], [-1.0, 0.5]])}, first=0, last=2)
    >>> FilterByLabel([0, 1]).mask(batch).tolist(), FilterByLabel([0, 1], filter_equal=True).mask(batch).tolist()
    ([True, False], [False, False])
    """

    thresholds: Sequence[float]

    filter_equal: bool = False
    """Whether a label that equals its threshold is not enough."""

    def __post_init__(self) -> None:
        """Reject an empty list, which would drop everything."""
        if not self.thresholds:
            raise ValueError("FilterByLabel: thresholds is empty, which no event would pass")
        object.__setattr__(self, "thresholds", tuple(float(threshold) for threshold in self.thresholds))

    def mask(self, batch: Batch) -> Tensor:
        """Return which events have a label that is high enough."""
        labels, lengths = padded_labels(batch, "FilterByLabel")
        count = len(self.thresholds)
        if labels.shape[1] < count:
            return torch.zeros(len(batch), dtype=torch.bool)
        thresholds = torch.tensor(self.thresholds, dtype=torch.float32)
        high = labels[:, :count] > thresholds if self.filter_equal else labels[:, :count] >= thresholds
        return high.any(1) & (lengths >= count)
