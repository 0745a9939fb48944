"""Adamom: momentum over the root of the mean of squared gradients."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from monolith.optim.scheduled import Rate, ScheduledOptimizer


class DenseAdamomOptimizer(ScheduledOptimizer):
    """With d = g + weight_decay w: m = mom m + (1 - mom) d; v = ada v + d²; c = ada c + 1; w -= lr m / sqrt(v/c + eps).

    v/c is the mean of the squares seen so far, the older the less. With `use_v2` the root is taken of v/c alone and
    eps added to it.
    """

    def __init__(
        self,
        params: Iterable[Any],
        learning_rate: Rate = 5e-6,
        ada_decay: float = 0.9999,
        mom_decay: float = 0.99,
        epsilon: float = 1e-6,
        weight_decay: float = 0.0,
        use_v2: bool = False,
    ) -> None:
        """Take the original's defaults."""
        settings = dict(
            ada_decay=ada_decay, mom_decay=mom_decay, epsilon=epsilon, weight_decay=weight_decay, use_v2=use_v2
        )
        super().__init__(params, learning_rate, settings)

    def update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """Change one parameter and its slots m, v, c."""
        m, v, c = self.slots(parameter, "m", "v", "c")
        decayed = gradient.add(parameter, alpha=group["weight_decay"])
        m.mul_(group["mom_decay"]).add_(decayed, alpha=1 - group["mom_decay"])
        v.mul_(group["ada_decay"]).addcmul_(decayed, decayed)
        c.mul_(group["ada_decay"]).add_(1)
        mean = v / c
        root = mean.sqrt_().add_(group["epsilon"]) if group["use_v2"] else mean.add_(group["epsilon"]).sqrt_()
        parameter.addcdiv_(m, root, value=-group["lr"])
