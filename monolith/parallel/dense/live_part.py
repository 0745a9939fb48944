"""The parameters of one shard with the optimizer that steps them: made from saved tensors, and saved as such."""

import json
from collections.abc import Container, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from monolith.checkpoint.format.dense_state import MODEL, OPTIMIZER, OPTIMIZER_NAMES, read_names
from monolith.checkpoint.format.tensor_tree import flatten_tree, restore_tree
from monolith.errors import CorruptFileError, NotFiniteError, shown
from monolith.parallel.dense.layout import DenseLayout
from monolith.parallel.dense.optimizer_path import optimizer_class
from monolith.parallel.dense.packing import PackedTensor, Packing
from monolith.wire import Array

NOT_SENT = frozenset({"params", "param_names", "step"})
"""What of an optimizer's group does not come with a step: the shard counts steps itself."""


class LivePart:
    """What a shard holds of a layout. Its tensors have the names that they have in a snapshot of one process."""

    def __init__(self, layout: DenseLayout, shard: int, tensors: Mapping[str, Tensor]) -> None:
        """Take this shard's part of saved tensors; a ValueError names what is missing or does not fit."""
        self.layout, self.shard = layout, shard
        self.layout_hash = layout.hash
        self.numbers = layout.owned_by(shard)
        specs = [layout.parameters[number] for number in self.numbers]
        self.packing = Packing(specs)
        self.kept_packing = Packing(layout.kept if shard == 0 else ())
        self.parameters = [nn.Parameter(_taken(spec, tensors)) for spec in specs]
        self.kept = [_taken(spec, tensors) for spec in self.kept_packing.specs]
        self._saved_groups: list[dict[str, Any]] = []
        self.optimizer = self._made_optimizer(tensors) if layout.optimizer else None

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of everything, named as `checkpoint.dense_tensors` does."""
        specs = [*self.packing.specs, *self.kept_packing.specs]
        found = {spec.name: value for spec, value in zip(specs, [*self.parameters, *self.kept], strict=True)}
        found |= {name: found[first] for name, first in self.layout.aliases if first in found}
        named = {MODEL + name: value.detach().clone() for name, value in found.items()}
        if self.optimizer is None:
            return named
        state = {
            number: self.optimizer.state[parameter]
            for number, parameter in zip(self.numbers, self.parameters, strict=True)
            if parameter in self.optimizer.state
        }
        groups = [
            {key: value if key in ("params", "param_names") else live[key] for key, value in saved.items()}
            for saved, live in zip(self._saved_groups, self.optimizer.param_groups, strict=True)
        ]
        named |= flatten_tree(OPTIMIZER, {"state": state, "param_groups": groups})
        if self.shard == 0:
            names = json.dumps([spec.name for spec in self.layout.parameters]).encode()
            named[OPTIMIZER_NAMES] = torch.frombuffer(bytearray(names), dtype=torch.uint8)
        return named

    def step(self, packed: Array | None, missing: Container[int], groups: object) -> None:
        """Step the optimizer once with packed gradients and settings of its groups; all is checked before.

        Parameters whose number is `missing` have no gradient.
        """
        gradients: list[Tensor | None] = [
            None if number in missing else gradient
            for number, gradient in zip(self.numbers, self.packing.unpack(packed), strict=True)
        ]
        if self.optimizer is None:
            return
        assert packed is not None
        if name := self.packing.first_not_finite(packed):
            raise NotFiniteError(f"the gradient of {name} is not finite; nothing was changed")
        settings = self._checked_settings(groups)
        for group, values in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(values)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        try:
            self.optimizer.step()
        finally:
            for parameter in self.parameters:
                parameter.grad = None

    def group_steps(self) -> list[int]:
        """Return the steps that the optimizer has counted per group; 0 for one that does not count."""
        return [] if self.optimizer is None else [int(one.get("step", 0)) for one in self.optimizer.param_groups]

    def _made_optimizer(self, tensors: Mapping[str, Tensor]) -> torch.optim.Optimizer:
        saved = restore_tree(OPTIMIZER, tensors)
        if not isinstance(saved, dict) or not {"state", "param_groups"} <= saved.keys():
            raise CorruptFileError("the saved state of the dense optimizer is none")
        sizes = self.layout.group_sizes
        if [len(group["params"]) for group in saved["param_groups"]] != list(sizes):
            raise ValueError(f"the saved optimizer has other groups of parameters than the model, which has {sizes}")
        places = self._saved_numbers(tensors)
        everywhere = self.layout.groups_of(range(len(self.layout.parameters)))
        here = dict(zip(self.numbers, self.parameters, strict=True))
        self._saved_groups, groups = [], []
        for group, all_numbers in zip(saved["param_groups"], everywhere, strict=True):
            self._saved_groups.append({**group, "params": all_numbers})
            settings = {key: value for key, value in group.items() if key not in ("params", "param_names")}
            groups.append({**settings, "params": [number for number in all_numbers if number in here]})
        made: torch.optim.Optimizer = optimizer_class(self.layout.optimizer)(
            [{**group, "params": [here[number] for number in group["params"]]} for group in groups]
        )
        state = {
            number: _copied(saved["state"][places[number]])
            for number in self.numbers
            if places[number] in saved["state"]
        }
        made.load_state_dict({"state": state, "param_groups": groups})
        return made

    def _saved_numbers(self, tensors: Mapping[str, Tensor]) -> list[int]:
        """Return the number that every parameter had when it was saved."""
        names = [spec.name for spec in self.layout.parameters]
        if OPTIMIZER_NAMES not in tensors:
            return list(range(len(names)))
        saved = {name: number for number, name in enumerate(read_names(tensors[OPTIMIZER_NAMES]))}
        if saved.keys() != set(names):
            differing = ", ".join(sorted(saved.keys() ^ set(names))[:4])
            raise ValueError(f"the saved optimizer has other parameters than the model: {differing}")
        return [saved[name] for name in names]

    def _checked_settings(self, groups: object) -> list[dict[str, Any]]:
        assert self.optimizer is not None
        live = self.optimizer.param_groups
        if not isinstance(groups, list) or len(groups) != len(live):
            raise ValueError(f"a step has the settings of {len(live)} groups, got {shown(groups)}")
        return [_checked_group(self.layout.optimizer, one, group) for one, group in zip(groups, live, strict=True)]


def sent_settings(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a worker sends of an optimizer's group with every step."""
    return {
        key: value.item() if isinstance(value, Tensor) else value for key, value in group.items() if key not in NOT_SENT
    }


def _checked_group(path: str, sent: object, live: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(sent, dict) or not sent.keys() <= live.keys() - NOT_SENT:
        raise ValueError(f"{path} has the settings {sorted(live.keys() - NOT_SENT)}, got {shown(sent, 200)}")
    return {key: _like(live[key], value, f"{path}, {key}") for key, value in sent.items()}


def _like(live: Any, sent: object, place: str) -> Any:
    """Return a value from JSON as the kind of value that it replaces: JSON has no tuples and no tensors."""
    if isinstance(sent, list):
        if not isinstance(live, list | tuple) or len(live) != len(sent):
            raise ValueError(f"{place}: expected a value like {live!r}, got {shown(sent)}")
        return type(live)(_like(one, value, place) for one, value in zip(live, sent, strict=True))
    if isinstance(live, Tensor):
        if not isinstance(sent, int | float):
            raise ValueError(f"{place}: expected a number, got {shown(sent)}")
        return torch.full_like(live, sent)
    if sent is None or isinstance(sent, bool | int | float | str):
        return sent
    raise ValueError(f"{place}: expected a number, text or list, got {shown(sent)}")


def _taken(spec: PackedTensor, tensors: Mapping[str, Tensor]) -> Tensor:
    found = tensors.get(MODEL + spec.name)
    if found is None:
        raise ValueError(f"there is no dense tensor {spec.name!r}; it was saved by another model")
    if found.shape != spec.shape or found.dtype != spec.dtype:
        raise ValueError(
            f"the dense tensor {spec.name!r} is {found.dtype} of shape {tuple(found.shape)}, the model's "
            f"{spec.dtype} of shape {spec.shape}; it was saved by another model"
        )
    return found.detach().clone()


def _copied(state: Any) -> Any:
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: _copied(value) for key, value in state.items()}
    return state
