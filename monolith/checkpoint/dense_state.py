"""Dense weights, buffers, optimizer state and random generators as plain tensors by name, and back."""

import random
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from monolith.checkpoint.tensor_tree import flatten_tree, restore_tree

_MODEL = "model/"
_OPTIMIZER = "optimizer"
_PYTHON_RANDOM = "random.python"
_NUMPY_RANDOM = "random.numpy"
_TORCH_RANDOM = "random.torch"


def dense_tensors(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> dict[str, Tensor]:
    """Return copies of everything dense that the next step depends on."""
    tensors: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} of {type(model).__name__}'s state is a {type(value).__name__}; keep tensors there")
        tensors[_MODEL + name] = value.detach().cpu().contiguous().clone()
    if optimizer is not None:
        tensors |= flatten_tree(_OPTIMIZER, optimizer.state_dict())
    return tensors


def restore_dense_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer | None, tensors: Mapping[str, Tensor]
) -> None:
    """Make model and optimizer what they were; what does not fit is a ValueError that names it."""
    restore_dense_weights(model, tensors)
    has_optimizer = f"{_OPTIMIZER}.json" in tensors
    if has_optimizer != (optimizer is not None):
        raise ValueError(
            f"the snapshot has {'a' if has_optimizer else 'no'} dense optimizer, {type(model).__name__} has "
            f"{'none' if optimizer is None else type(optimizer).__name__}"
        )
    if optimizer is not None:
        optimizer.load_state_dict(restore_tree(_OPTIMIZER, tensors))


def restore_dense_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Make the model's weights and buffers what they were; what does not fit is a ValueError that names it."""
    saved = {name.removeprefix(_MODEL): value for name, value in tensors.items() if name.startswith(_MODEL)}
    try:
        model.load_state_dict(saved)
    except RuntimeError as error:
        raise ValueError(f"the snapshot's dense weights do not fit {type(model).__name__}: {error}") from error


def random_tensors() -> dict[str, Tensor]:
    """Return the state of the global generators of torch, Python and NumPy."""
    return {
        _TORCH_RANDOM: torch.get_rng_state(),
        **flatten_tree(_PYTHON_RANDOM, random.getstate()),
        **flatten_tree(_NUMPY_RANDOM, _numpy_state()),
    }


def restore_random_tensors(tensors: Mapping[str, Tensor]) -> None:
    """Set the global generators to what `random_tensors` returned."""
    torch.set_rng_state(tensors[_TORCH_RANDOM].clone())
    random.setstate(restore_tree(_PYTHON_RANDOM, tensors))
    name, keys, *rest = restore_tree(_NUMPY_RANDOM, tensors)
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))


def _numpy_state() -> tuple[object, ...]:
    name, keys, *rest = np.random.get_state()
    return (str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest)
