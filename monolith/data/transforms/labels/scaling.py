"""Labels bounded and rescaled; a label that is INVALID stays so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.parse.column_request import INVALID_LABEL
from monolith.data.transforms.labels.column import get_labels, with_labels
from monolith.data.transforms.step import Transform

NORM_METHODS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "log": lambda x, v: torch.log((x + v).clamp(min=0)),
    "scale": lambda x, v: x / v,
    "scale2int": lambda x, v: torch.trunc(x / v),
    "pow": lambda x, v: (x + 1) ** v,
    "repow": lambda x, v: torch.where(x > 0, x, 0) ** v * (x > 0),
    "scalelog": lambda x, v: torch.log((x / v + 1).clamp(min=0)),
}
"""What each method makes of a label x and its value v."""


@dataclass(frozen=True)
class LabelUpperBound(Transform):
    """Lowers each label to its bound if it is above."""

    label_upper_bounds: Sequence[float]
    """One per label."""

    def __post_init__(self) -> None:
        """Reject an empty list."""
        if not self.label_upper_bounds:
            raise ValueError("LabelUpperBound: label_upper_bounds is empty")
        object.__setattr__(self, "label_upper_bounds", tuple(self.label_upper_bounds))

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with bounded labels."""
        labels = get_labels(batch, "LabelUpperBound")
        if not len(batch):
            return batch
        if labels.shape[1] != len(self.label_upper_bounds):
            raise ValueError(
                f"LabelUpperBound: {len(self.label_upper_bounds)} bounds for {labels.shape[1]} labels in batch "
                f"{batch.name}"
            )
        return with_labels(batch, torch.minimum(labels, torch.tensor(self.label_upper_bounds, dtype=torch.float32)))


@dataclass(frozen=True)
class LabelNormalization(Transform):
    """Sends every label through methods, one after the other.

    | method | x becomes |
    |---|---|
    | log | ln(max(x + v, 0)) |
    | scale | x / v |
    | scale2int | x / v without its fraction |
    | pow | (x + 1) ** v |
    | repow | x ** v if x > 0, else 0 |
    | scalelog | ln(max(x / v + 1, 0)) |
    """

    norm_methods: Sequence[str]

    norm_values: Sequence[float]
    """The v of each method."""

    def __post_init__(self) -> None:
        """Reject methods that do not exist."""
        for name in self.norm_methods:
            if name not in NORM_METHODS:
                raise ValueError(f"LabelNormalization: methods are {', '.join(NORM_METHODS)}, got {name!r}")
        if len(self.norm_methods) != len(self.norm_values):
            raise ValueError(
                f"LabelNormalization: {len(self.norm_methods)} norm_methods and {len(self.norm_values)} norm_values; "
                "each method needs a value"
            )
        object.__setattr__(self, "norm_methods", tuple(self.norm_methods))
        object.__setattr__(self, "norm_values", tuple(self.norm_values))

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with normalized labels."""
        before = get_labels(batch, "LabelNormalization")
        labels = before
        for name, value in zip(self.norm_methods, self.norm_values, strict=True):
            labels = NORM_METHODS[name](labels, value)
        return with_labels(batch, torch.where(before == INVALID_LABEL, before, labels))
