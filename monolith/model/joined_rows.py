"""Slices of features that a model reads as one tensor: joined before it runs, and their gradients taken apart after."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from monolith._core import native
from monolith.model.plan.layouts import JoinedSlices
from monolith.model.plan.slices import PulledKey, SliceKey


class JoinedRows:
    """Tensors of several features' slices, side by side or stacked; one native call for all of them, each way.

    Without it, every slice of every feature is a tensor of its own, with a gradient of its own, and joining them is up
    to torch: for 26 features that takes longer than looking up their rows.
    """

    def __init__(self, joined: Sequence[JoinedSlices], places: Mapping[SliceKey, tuple[int, int]]) -> None:
        """Take what is joined, and (begin, dim) of each slice in the rows of its feature."""
        self.joined = tuple(joined)
        self.features = tuple(dict.fromkeys(feature for one in joined for feature, _ in one.slices))
        """Whose rows are joined, in the order of the blocks of `forward` and `backward`."""
        self._slices = [(number, key) for number, one in enumerate(self.joined) for key in one.slices]
        self._places = {key: places[key] for _, key in self._slices}
        self._layout = native.SliceLayout(self._parts())

    @property
    def slices(self) -> frozenset[SliceKey]:
        """All slices that are part of a tensor."""
        return frozenset(self._places)

    def forward(self, blocks: Sequence[Tensor]) -> dict[PulledKey, Tensor]:
        """Return the tensors of a batch from the features' rows, [events, dim] each; one row counts for all events."""
        num_events = next((len(block) for block in blocks if len(block) != 1), 1)
        tensors = [torch.empty(self._shape(one, num_events)) for one in self.joined]
        self._layout.join(blocks, [one.flatten(1) for one in tensors])
        return {one.key: tensor for one, tensor in zip(self.joined, tensors, strict=True)}

    def backward(
        self, gradients: Sequence[Tensor | None], blocks: Sequence[Tensor], *, written: frozenset[SliceKey]
    ) -> None:
        """Write the gradients of the tensors to those of the features' rows; a tensor without one counts as zeros.

        What is in `written` has a gradient already, to which this one is added.
        """
        seen, add = set(written), []
        for number, key in self._slices:
            add.append(key in seen)
            if gradients[number] is not None:
                seen.add(key)
        flat = [torch.empty(0, 0) if one is None else one.flatten(1).contiguous() for one in gradients]
        self._layout.split(flat, add, blocks)
        for feature, slice_name in self.slices - seen:
            begin, dim = self._places[feature, slice_name]
            blocks[self.features.index(feature)].narrow(-1, begin, dim).zero_()

    def _parts(self) -> list[tuple[int, int, int, int, int]]:
        parts = []
        begins = [0] * len(self.joined)
        for number, key in self._slices:
            begin, dim = self._places[key]
            parts.append((self.features.index(key[0]), begin, number, begins[number], dim))
            begins[number] += dim
        return parts

    def _shape(self, one: JoinedSlices, num_events: int) -> tuple[int, ...]:
        dims = [self._places[key][1] for key in one.slices]
        return (num_events, len(dims), dims[0]) if one.out_type == "stack" else (num_events, sum(dims))
