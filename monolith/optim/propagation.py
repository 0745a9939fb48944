"""Gradients that are known somewhere in the middle, carried back to where they begin."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

Key = TypeVar("Key")


def propagate_back_gradients(
    grads_and_vars: Iterable[tuple[Tensor, Tensor]],
    xs: Iterable[Tensor],
    valid_var_set: Collection[Tensor] | None = None,
) -> list[Tensor | None]:
    """Return the gradient with respect to each of `xs`, given those with respect to tensors computed from them.

    A tensor of `xs` that nothing was computed from has None.
    """
    gradients, variables = [], []
    for gradient, variable in grads_and_vars:
        if valid_var_set is not None and not any(variable is one for one in valid_var_set):
            raise RuntimeError("Invalid variables in the input", variable, valid_var_set)
        gradients.append(gradient)
        variables.append(variable)
    return list(torch.autograd.grad(variables, list(xs), gradients, allow_unused=True))


def propagate_back_dict_gradients(
    grads_and_vars: Iterable[tuple[Tensor, Tensor]],
    x_to_key: Mapping[Tensor, Key],
    valid_var_set: Collection[Tensor] | None = None,
) -> dict[Key, list[tuple[Tensor | None, Tensor]]]:
    """Return [(gradient, x), ...] by key, in the order of `x_to_key`."""
    grouped: dict[Key, list[tuple[Tensor | None, Tensor]]] = defaultdict(list)
    found = propagate_back_gradients(grads_and_vars, x_to_key, valid_var_set)
    for gradient, (x, key) in zip(found, x_to_key.items(), strict=True):
        grouped[key].append((gradient, x))
    return grouped
