"""NestedTensors: a nested structure taken apart into a flat list of tensors, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from monolith.tensors import Ragged, map_leaves

_NESTED_RAGGED = "Nested tensor doesn't support nested RaggedTensor."


@dataclass(frozen=True, slots=True)
class _Place:
    """Stands for a leaf in the structure that is kept: where the leaf went."""

    kind: str
    index: int


class NestedTensors:
    """The tensors of a nested structure as a flat list, and the way back from such a list.

    Containers are lists, tuples (named ones too) and dicts; leaves are tensors, ragged tensors (`Ragged`, or
    `torch.nested` of jagged layout), and what is kept as it is: None, bool, int, str and `nn.Parameter`. A tensor that
    occurs twice is in the list once. The structure given is not changed (the original wrote numbers into it).

    >>> nested = NestedTensors({"a": torch.ones(1), "b": ("text", None, torch.ones(2))})
    >>> flat = nested.get_tensors()
    >>> nested.get_nested_result([tensor * 5 for tensor in flat])
    {'a': tensor([5.]), 'b': ('text', None, tensor([5., 5.]))}

    Raises:
        ValueError: A leaf is of another type, or ragged in more than one dimension.
    """

    def __init__(self, nested: Any) -> None:
        # By the address of the leaf; the leaf is kept, so that no other object gets its address meanwhile.
        self._places: dict[int, tuple[_Place, Any]] = {}
        self._tensors: list[Tensor] = []
        self._raggeds: list[Ragged] = []
        self._jagged: list[bool] = []
        self._others: list[Any] = []
        self._template = map_leaves(nested, self._add)

    def get_tensors(self) -> list[Tensor]:
        """Return the dense tensors, then values and row splits of each ragged one, in the order of the structure."""
        return [*self._tensors, *(part for ragged in self._raggeds for part in (ragged.values, ragged.row_splits))]

    def get_nested_result(self, tensors: Sequence[Tensor]) -> Any:
        """Return a structure of the original shape with these tensors, which stand in the order of `get_tensors`."""
        wanted = len(self._tensors) + 2 * len(self._raggeds)
        if len(tensors) != wanted:
            raise ValueError(
                f"{wanted} tensors are wanted ({len(self._tensors)} dense, values and row splits of "
                f"{len(self._raggeds)} ragged), got {len(tensors)}"
            )
        flat = tensors[len(self._tensors) :]
        # Not checked again: tensors that took the way of the flat list belong together.
        raggeds = [Ragged.unchecked(*pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
        leaves: dict[str, Sequence[Any]] = {
            "tensor": tensors,
            "ragged": [r.to_nested() if jagged else r for r, jagged in zip(raggeds, self._jagged, strict=True)],
            "other": self._others,
        }
        return map_leaves(self._template, lambda place: leaves[place.kind][place.index])

    def _add(self, leaf: Any) -> _Place:
        if id(leaf) not in self._places:
            self._places[id(leaf)] = (self._new_place(leaf), leaf)
        return self._places[id(leaf)][0]

    def _new_place(self, leaf: Any) -> _Place:
        if isinstance(leaf, (bool, int, str, nn.Parameter)):
            self._others.append(leaf)
            return _Place("other", len(self._others) - 1)
        if isinstance(leaf, Ragged) or (isinstance(leaf, Tensor) and leaf.is_nested):
            self._raggeds.append(_one_ragged_rank(leaf))
            self._jagged.append(isinstance(leaf, Tensor))
            return _Place("ragged", len(self._raggeds) - 1)
        if isinstance(leaf, Tensor):
            self._tensors.append(leaf)
            return _Place("tensor", len(self._tensors) - 1)
        raise ValueError(f"Tensor is not supported. {leaf}")


def _one_ragged_rank(leaf: Ragged | Tensor) -> Ragged:
    """Return the leaf as rows of plain values."""
    if isinstance(leaf, Ragged):
        if leaf.values.is_nested:
            raise ValueError(_NESTED_RAGGED)
        return leaf
    # The strided layout lets every dimension be ragged.
    if leaf.layout != torch.jagged:
        raise ValueError(_NESTED_RAGGED)
    return Ragged.from_nested(leaf)
