"""Dense weights, buffers, optimizer state and random generators as plain tensors by name, and back."""

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monolith.checkpoint.format.dense_names import old_names
from monolith.checkpoint.format.tensor_tree import flatten_tree, restore_tree
from monolith.errors import CorruptFileError

MODEL = "model/"
OPTIMIZER = "optimizer"
OPTIMIZER_NAMES = "optimizer_names.json"
_PYTHON_RANDOM = "random.python"
_NUMPY_RANDOM = "random.numpy"
_TORCH_RANDOM = "random.torch"


def dense_tensors(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> dict[str, Tensor]:
    """Return copies of everything dense that the next step depends on."""
    tensors: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} of {type(model).__name__}'s state is a {type(value).__name__}; keep tensors there")
        tensors[MODEL + name] = value.detach().cpu().contiguous().clone()
    if optimizer is not None:
        tensors |= flatten_tree(OPTIMIZER, optimizer.state_dict())
        # An optimizer knows its parameters by number alone; another order of layers would mix up their state.
        names = json.dumps(_parameter_names(model, optimizer)).encode()
        tensors[OPTIMIZER_NAMES] = torch.frombuffer(bytearray(names), dtype=torch.uint8)
    return tensors


def restore_dense_tensors(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    tensors: Mapping[str, Tensor],
    *,
    alias_map: Mapping[str, str] | None = None,
    guess_names: bool = False,
) -> None:
    """Make model and optimizer what they were; what does not fit is a ValueError that names it.

    Weights that were renamed are found by `alias_map`, new name -> old name, or guessed: see `old_names`.
    """
    names = restore_dense_weights(model, tensors, alias_map=alias_map, guess_names=guess_names)
    has_optimizer = f"{OPTIMIZER}.json" in tensors
    if has_optimizer != (optimizer is not None):
        raise ValueError(
            f"the snapshot has {'a' if has_optimizer else 'no'} dense optimizer, {type(model).__name__} has "
            f"{'none' if optimizer is None else type(optimizer).__name__}"
        )
    if optimizer is None:
        return
    state = restore_tree(OPTIMIZER, tensors)
    if not isinstance(state, dict) or not {"state", "param_groups"} <= state.keys():
        raise CorruptFileError("the saved state of the dense optimizer is none")
    if OPTIMIZER_NAMES in tensors:
        wanted = [names.get(name, name) for name in _parameter_names(model, optimizer)]
        state = _reordered(state, read_names(tensors[OPTIMIZER_NAMES]), wanted, optimizer)
    optimizer.load_state_dict(state)


def restore_dense_weights(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    alias_map: Mapping[str, str] | None = None,
    guess_names: bool = False,
) -> dict[str, str]:
    """Make the model's weights and buffers what they were; returns the saved name of each.

    A model of another precision takes them rounded. What does not fit is a ValueError that names it: also floats for
    whole numbers, and numbers that are too large.
    """
    saved = {name.removeprefix(MODEL): value for name, value in tensors.items() if name.startswith(MODEL)}
    present = model.state_dict()
    names = old_names(present, saved, alias_map=alias_map, guess=guess_names)
    taken = {new: _converted(new, saved[old], present[new]) for new, old in names.items() if old in saved}
    extra = {name: value for name, value in saved.items() if name not in names.values()}
    try:
        model.load_state_dict(taken | {name: value for name, value in extra.items() if name not in taken})
    except RuntimeError as error:
        raise ValueError(f"the snapshot's dense weights do not fit {type(model).__name__}: {error}") from error
    return names


def _converted(name: str, saved: Tensor, present: object) -> Tensor:
    """Return a saved tensor in the type of the one that stands for it now; a ValueError if it would not be the same."""
    if not isinstance(present, Tensor) or saved.dtype == present.dtype:
        return saved
    converted = saved.to(present.dtype)
    if saved.is_floating_point() and present.is_floating_point():
        is_same = bool((converted.isfinite() | ~saved.isfinite()).all())
    else:
        is_same = bool((converted == saved).all()) and saved.is_floating_point() == present.is_floating_point()
    if not is_same:
        raise ValueError(
            f"the snapshot's {name} is of {saved.dtype}, the model's of {present.dtype}, which cannot hold it; make it "
            f"{saved.dtype}"
        )
    return converted


def random_tensors() -> dict[str, Tensor]:
    """Return the state of the global generators of torch, Python and NumPy."""
    return {
        _TORCH_RANDOM: torch.get_rng_state(),
        **flatten_tree(_PYTHON_RANDOM, random.getstate()),
        **flatten_tree(_NUMPY_RANDOM, _numpy_state()),
    }


def restore_random_tensors(tensors: Mapping[str, Tensor]) -> None:
    """Set the global generators to what `random_tensors` returned."""
    python_state = restore_tree(_PYTHON_RANDOM, tensors)
    numpy_state = restore_tree(_NUMPY_RANDOM, tensors)
    try:
        name, keys, *rest = numpy_state
        torch.set_rng_state(tensors[_TORCH_RANDOM].clone())
        random.setstate(python_state)
        np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise CorruptFileError(f"the saved state of random generators cannot be used: {error!r}") from error


def _numpy_state() -> tuple[object, ...]:
    name, keys, *rest = np.random.get_state()
    return (str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest)


def _parameter_names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Names of an optimizer's parameters by their number in its state; empty for one that is not the model's."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names.get(id(parameter), "") for group in optimizer.param_groups for parameter in group["params"]]


def read_names(tensor: Tensor) -> list[str]:
    """Return the names of an optimizer's parameters, in its order, from the tensor that keeps them."""
    try:
        return [str(name) for name in json.loads(bytes(tensor.tolist()))]
    except (ValueError, TypeError, RecursionError) as error:
        raise CorruptFileError(f"the names of the optimizer's parameters cannot be read: {error}") from error


def _reordered(state: Any, saved: list[str], wanted: list[str], optimizer: torch.optim.Optimizer) -> Any:
    """Return an optimizer's state with its parameters, whose saved names are `wanted`, in the order of now."""
    if saved == wanted or sorted(saved) != sorted(wanted) or len(set(saved)) != len(saved):
        return state  # in order; or the optimizer itself says what does not fit
    place = {name: number for number, name in enumerate(saved)}
    old = state["state"]
    moved = {number: old[place[name]] for number, name in enumerate(wanted) if place[name] in old}
    present = optimizer.state_dict()["param_groups"]
    groups = [{**was, "params": now["params"]} for was, now in zip(state["param_groups"], present, strict=True)]
    return {**state, "state": moved, "param_groups": groups}
