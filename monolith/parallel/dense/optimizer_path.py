"""Dense optimizers by import path: a parameter server makes none but those of torch and Monolith."""

from typing import Any, Final

import torch

import monolith.optim
from monolith.errors import shown

_PACKAGES: Final = {"torch.optim": torch.optim, "monolith.optim": monolith.optim}

_REASONS: Final = {
    torch.optim.LBFGS: "it runs the model several times per step, and the model is on the workers",
    torch.optim.SparseAdam: "it takes sparse gradients alone; rows of ids belong in a table, with its own optimizer",
}


def optimizer_path(optimizer: torch.optim.Optimizer) -> str:
    """Return the import path of an optimizer's class; ValueError if a parameter server cannot make one.

    >>> optimizer_path(torch.optim.Adam([torch.zeros(2)]))
    'torch.optim.Adam'
    """
    kind = type(optimizer)
    for package, module in _PACKAGES.items():
        if getattr(module, kind.__name__, None) is kind:
            path = f"{package}.{kind.__name__}"
            optimizer_class(path)
            break
    else:
        raise ValueError(
            f"{kind.__module__}.{kind.__qualname__}: a parameter server makes the optimizers of torch.optim and "
            "monolith.optim alone; use one of these, or train without parameter servers"
        )
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ValueError(f"{path} has step hooks, which cannot go to a parameter server; remove them")
    return path


def optimizer_class(path: object) -> type[Any]:
    """Return the class at a path; ValueError if it is none that a parameter server makes."""
    package, _, name = path.rpartition(".") if isinstance(path, str) else ("", "", "")
    found = getattr(_PACKAGES[package], name, None) if package in _PACKAGES and name.isidentifier() else None
    if not isinstance(found, type) or not issubclass(found, torch.optim.Optimizer) or found is torch.optim.Optimizer:
        raise ValueError(
            f"{shown(path)} is no optimizer that a parameter server makes; use a class of torch.optim or monolith.optim"
        )
    if found in _REASONS:
        raise ValueError(f"{path} does not work on parameter servers: {_REASONS[found]}")
    return found
