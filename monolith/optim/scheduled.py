"""What the dense optimizers here share: a rate that may follow the step, and dense gradients only."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Rate: TypeAlias = float | Callable[[int], float]
"""A learning rate, or a function of the step (from 0) that returns it, such as `PolynomialDecay`."""


class ScheduledOptimizer(torch.optim.Optimizer):
    """An optimizer that counts its steps and asks for the rate of each; `update` changes one parameter."""

    def __init__(self, params: Iterable[Any], learning_rate: Rate, defaults: dict[str, Any]) -> None:
        """Begin at step 0."""
        self._rate = learning_rate if callable(learning_rate) else None
        rate = learning_rate(0) if callable(learning_rate) else float(learning_rate)
        if rate < 0:
            raise ValueError(f"{type(self).__name__}: learning_rate must not be negative, got {rate}")
        super().__init__(params, {"lr": rate, "step": 0, **defaults})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step with the gradients that are there, and return what `closure` returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.set_rates()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._check_dense(parameter.grad)
                    self.update(parameter, parameter.grad, group)
            group["step"] += 1
        return loss

    def set_rates(self) -> None:
        """Set the learning rate of every group to that of its step, if the rate follows the step."""
        for group in self.param_groups if self._rate is not None else ():
            group["lr"] = float(self._rate(group["step"]))  # type: ignore[misc]

    def update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """Change one parameter and its state; `group` has the settings, the rate as `lr` and the step."""
        raise NotImplementedError

    def slots(self, parameter: Tensor, *names: str) -> list[Tensor]:
        """Return state tensors of the parameter's shape; zeros when first asked for."""
        state = self.state[parameter]
        for name in names:
            if name not in state:
                state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return [state[name] for name in names]

    def _check_dense(self, gradient: Tensor) -> None:
        if gradient.is_sparse:
            raise NotImplementedError(
                f"{type(self).__name__} takes dense gradients; rows of ids belong in a table, with its own optimizer"
            )
