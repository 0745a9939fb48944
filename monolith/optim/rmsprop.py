"""RMSProp with the learning rate inside the momentum, in the original's two versions."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from monolith.optim.scheduled import Rate, ScheduledOptimizer


class DenseRmspropOptimizer(ScheduledOptimizer):
    """With d = g + weight_decay w, both versions end with w -= m.

    Version 1: v += (d² - v)(1 - beta2); m = beta1 m + lr d / sqrt(v + eps).
    Version 2 (`use_v2`): v = beta2 v + d²; m = beta1 m + lr d / (sqrt(v) + eps).
    """

    def __init__(
        self,
        params: Iterable[Any],
        learning_rate: Rate = 5e-6,
        beta1: float = 0.99,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        use_v2: bool = False,
    ) -> None:
        """Take the original's defaults."""
        settings = dict(beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=weight_decay, use_v2=use_v2)
        super().__init__(params, learning_rate, settings)

    def update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """Change one parameter and its slots m, v."""
        m, v = self.slots(parameter, "m", "v")
        decayed = gradient.add(parameter, alpha=group["weight_decay"])
        if group["use_v2"]:
            v.mul_(group["beta2"]).addcmul_(decayed, decayed)
            root = v.sqrt().add_(group["epsilon"])
        else:
            v.add_(decayed.square().sub_(v), alpha=1 - group["beta2"])
            root = v.add(group["epsilon"]).sqrt_()
        m.mul_(group["beta1"]).addcdiv_(decayed, root, value=group["lr"])
        parameter.sub_(m)
