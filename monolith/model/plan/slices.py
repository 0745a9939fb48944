"""What `lookup_embedding_slice` reads: a recorder in the dry run, the slices of a batch afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from monolith.embedding import Compressor, Initializer, LearningRate, Optimizer
from monolith.model.plan.feature_column import FeatureColumn
from monolith.model.plan.feature_groups import OutType, combine

SliceKey = tuple[str, str]
"""(feature, slice)."""

PulledKey = tuple[str, str]
"""A `SliceKey`, or what `joined_key` makes of several that were joined."""


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """One slice of one feature, as the model asks for it; None leaves it to the feature's column."""

    column: FeatureColumn
    slice_name: str
    dim: int
    optimizer: Optimizer | None = None
    initializer: Initializer | None = None
    compressor: Compressor | None = None
    learning_rate: LearningRate | None = None

    @property
    def key(self) -> SliceKey:
        """The (feature, slice) it is about."""
        return self.column.name, self.slice_name


class SliceReader(Protocol):
    """Answers lookups."""

    def read(self, request: SliceRequest) -> Tensor:
        """Return one row of the slice per event: [events, dim]."""
        ...

    def join(self, requests: Sequence[SliceRequest], out_type: OutType) -> Tensor:
        """Return several slices as one tensor: side by side, stacked, or summed."""
        ...


def joined_key(slices: Sequence[SliceKey], out_type: OutType) -> PulledKey:
    """Return where a batch has slices that were joined before the model ran.

    >>> joined_key([("uid", "vec"), ("mov", "vec")], "concat")
    ('uid,mov', 'vec:concat')
    """
    parts = [part for _, part in slices]
    same = parts.count(parts[0]) == len(parts)
    return ",".join([name for name, _ in slices]), f"{parts[0] if same else ','.join(parts)}:{out_type}"


class PulledSlices:
    """Answers lookups from the rows that were pulled for a batch."""

    def __init__(self, slices: Mapping[PulledKey, Tensor]) -> None:
        """Take rows by (feature, slice), and joined ones by `joined_key`."""
        self._slices = slices

    def read(self, request: SliceRequest) -> Tensor:
        """Return the rows; what was not planned is a RuntimeError that says what was."""
        rows = self._slices.get(request.key)
        if rows is None or rows.shape[-1] != request.dim:
            feature, slice_name = request.key
            planned = ", ".join(f"{one}/{part} (dim {rows.shape[-1]})" for (one, part), rows in self._slices.items())
            raise RuntimeError(
                f"unplanned lookup of feature {feature!r}, slice {slice_name!r}, dim {request.dim}; planned were: "
                f"{planned}. The plan is what model_fn asked for in its dry run: look up the same slices in every call"
            )
        return rows

    def join(self, requests: Sequence[SliceRequest], out_type: OutType) -> Tensor:
        """Return slices that were joined before, or join them now."""
        joined = self._slices.get(joined_key([one.key for one in requests], out_type))
        if joined is not None:
            return joined
        return combine([self.read(one) for one in requests], out_type)
