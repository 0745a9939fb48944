"""What `lookup_embedding_slice` reads: a recorder in the dry run, the leaves of a batch afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from monolith.embedding import Compressor, Initializer, LearningRate, Optimizer
from monolith.model.plan.feature_column import FeatureColumn

SliceKey = tuple[str, str]
"""(feature, slice)."""


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


class LeafReader:
    """Answers lookups from the rows that were pulled for a batch."""

    def __init__(self, leaves: Mapping[SliceKey, Tensor]) -> None:
        """Take rows by (feature, slice)."""
        self._leaves = leaves

    def read(self, request: SliceRequest) -> Tensor:
        """Return the rows; what was not planned is a RuntimeError that says what was."""
        leaf = self._leaves.get(request.key)
        if leaf is None or leaf.shape[-1] != request.dim:
            feature, slice_name = request.key
            planned = ", ".join(f"{one}/{part} (dim {rows.shape[-1]})" for (one, part), rows in self._leaves.items())
            raise RuntimeError(
                f"unplanned lookup of feature {feature!r}, slice {slice_name!r}, dim {request.dim}; planned were: "
                f"{planned}. The plan is what model_fn asked for in its dry run: look up the same slices in every call"
            )
        return leaf
