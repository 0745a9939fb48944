"""Which dense tensors a job has, and on which parameter server each of them is."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from monolith.errors import PlanMismatchError, shown
from monolith.parallel.dense.optimizer_path import optimizer_class, optimizer_path
from monolith.parallel.dense.packing import PackedTensor


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseLayout:
    """The dense part of a model over all shards; the same model gives the same layout on every worker."""

    num_shards: int

    optimizer: str
    """Import path of the optimizer; empty if the model has none."""

    parameters: tuple[PackedTensor, ...]
    """What the optimizer steps, in its order."""

    group_sizes: tuple[int, ...]
    """Number of parameters in each of the optimizer's groups."""

    owners: tuple[int, ...]
    """Shard of every parameter."""

    kept: tuple[PackedTensor, ...]
    """Buffers and weights that no gradient changes; shard 0 keeps them, the chief sends them."""

    aliases: tuple[tuple[str, str], ...]
    """Further names of tensors in the model's state: (name, first name)."""

    @classmethod
    def of(cls, model: nn.Module, optimizer: torch.optim.Optimizer | None, num_shards: int) -> "DenseLayout":
        """Return the layout of a model; ValueError if a part of it cannot live on parameter servers."""
        groups = [] if optimizer is None else optimizer.param_groups
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        stepped: list[PackedTensor] = []
        firsts: dict[int, str] = {}
        for parameter in (one for group in groups for one in group["params"]):
            if id(parameter) not in names:
                raise ValueError(
                    f"{type(optimizer).__name__} has a weight of shape {tuple(parameter.shape)} that is none of "
                    f"{type(model).__name__}'s; a parameter server keeps the weights of the model"
                )
            firsts[id(parameter)] = names[id(parameter)]
            stepped.append(PackedTensor.of(names[id(parameter)], parameter))
        is_stepped = set(firsts)
        kept: list[PackedTensor] = []
        aliases: list[tuple[str, str]] = []
        for name, value in _state(model).items():
            first = firsts.setdefault(id(value), name)
            if first != name:
                aliases.append((name, first))
            elif id(value) not in is_stepped:
                kept.append(PackedTensor.of(name, value))
        return cls(
            num_shards=num_shards,
            optimizer="" if optimizer is None else optimizer_path(optimizer),
            parameters=tuple(stepped),
            group_sizes=tuple(len(group["params"]) for group in groups),
            owners=tuple(balanced([spec.nbytes for spec in stepped], num_shards)),
            kept=tuple(kept),
            aliases=tuple(aliases),
        )

    @property
    def hash(self) -> int:
        """A number that two layouts share only if they are the same."""
        return int.from_bytes(hashlib.sha256(json.dumps(self.to_json()).encode()).digest()[:6], "little")

    def owned_by(self, shard: int) -> list[int]:
        """Return the numbers of the parameters of a shard."""
        return [number for number, owner in enumerate(self.owners) if owner == shard]

    def used_shards(self) -> list[int]:
        """Return the shards that hold something: 0, and all that own a parameter."""
        return sorted({0, *self.owners})

    def groups_of(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return numbers of parameters sorted into their groups; a group may have none."""
        groups, first = [], 0
        for size in self.group_sizes:
            groups.append([number for number in numbers if first <= number < first + size])
            first += size
        return groups

    def check_same(self, other: "DenseLayout", address: object) -> None:
        """Raise a PlanMismatchError that names the first difference to the layout of a parameter server."""
        for field in ("num_shards", "optimizer", "group_sizes", "parameters", "kept", "aliases", "owners"):
            mine, theirs = getattr(self, field), getattr(other, field)
            if mine == theirs:
                continue
            if isinstance(mine, tuple) and len(mine) == len(theirs):
                mine, theirs = next((a, b) for a, b in zip(mine, theirs, strict=True) if a != b)
            raise PlanMismatchError(
                f"{address}: the dense part of this model differs from the chief's: {field} {shown(mine, 200)} here, "
                f"{shown(theirs, 200)} there; start all processes with the same model"
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "num_shards": self.num_shards,
            "optimizer": self.optimizer,
            "parameters": [spec.to_json() for spec in self.parameters],
            "group_sizes": list(self.group_sizes),
            "owners": list(self.owners),
            "kept": [spec.to_json() for spec in self.kept],
            "aliases": [list(pair) for pair in self.aliases],
        }

    @classmethod
    def from_json(cls, value: object) -> "DenseLayout":
        """Return what `to_json` gave; ValueError that says what is wrong if it is something else."""
        if not isinstance(value, dict) or value.keys() != cls.__dataclass_fields__.keys():
            raise ValueError(f"a dense layout has {', '.join(cls.__dataclass_fields__)}, got {shown(value)}")
        if any(
            not isinstance(value[name], list) for name in ("parameters", "group_sizes", "owners", "kept", "aliases")
        ):
            raise ValueError(f"parts of a dense layout are lists, got {shown(value)}")
        try:
            layout = cls(
                num_shards=int(value["num_shards"]),
                optimizer=str(value["optimizer"]),
                parameters=tuple(PackedTensor.from_json(one) for one in value["parameters"]),
                group_sizes=tuple(int(size) for size in value["group_sizes"]),
                owners=tuple(int(owner) for owner in value["owners"]),
                kept=tuple(PackedTensor.from_json(one) for one in value["kept"]),
                aliases=tuple((str(name), str(first)) for name, first in value["aliases"]),
            )
        except TypeError as error:
            raise ValueError(f"a dense layout cannot be read: {error}") from error
        layout._check()
        return layout

    def _check(self) -> None:
        if self.optimizer:
            optimizer_class(self.optimizer)
        names = [spec.name for spec in (*self.parameters, *self.kept)]
        if len(set(names)) != len(names) or any(first not in names for _, first in self.aliases):
            raise ValueError("a dense layout names a tensor twice, or an alias of none")
        if len(self.owners) != len(self.parameters) or sum(self.group_sizes) != len(self.parameters):
            raise ValueError(f"a dense layout of {len(self.parameters)} parameters needs owner and group for each")
        if any(size < 0 for size in self.group_sizes) or any(not 0 <= one < self.num_shards for one in self.owners):
            raise ValueError(f"a dense layout of {self.num_shards} shards has owners from 0 on, got {self.owners}")


def balanced(sizes: Sequence[int], num_shards: int) -> list[int]:
    """Return a shard per size such that sums differ little: the largest first, each to the emptiest shard.

    >>> balanced([10, 70, 40, 30], 2)
    [0, 0, 1, 1]
    """
    loads, owners = [0] * num_shards, [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda one: (-sizes[one], one)):
        owners[number] = min(range(num_shards), key=lambda shard: (loads[shard], shard))
        loads[owners[number]] += sizes[number]
    return owners


def kept_tensors(model: nn.Module, layout: DenseLayout) -> list[Tensor]:
    """Return the model's tensors that shard 0 keeps, in the layout's order."""
    state = _state(model)
    return [state[spec.name] for spec in layout.kept]


def _state(model: nn.Module) -> Mapping[str, Tensor]:
    state: Mapping[str, Any] = model.state_dict(keep_vars=True)
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} of {type(model).__name__}'s state is a {type(value).__name__}; keep tensors there")
    return state
