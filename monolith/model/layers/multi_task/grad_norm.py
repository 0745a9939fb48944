"""GradNorm: weights of several losses, learned so that their gradients are alike."""

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor, nn

from monolith.model.hyper_params import with_params
from monolith.model.layers.layer import Layer, LayerOptions


@with_params
class GradNorm(Layer):
    """Called with (losses, tensors they share); returns a loss for the weights, and the weighted sum of the losses.

    w = softmax(weights), g the length of each loss's gradient by the shared tensors, a the mean of g·w:
    scale·Σ|g·w − a|^loss_pow, and Σ L·w. Add both to the model's loss; the first changes the weights only, the
    second everything else.

    Args:
        loss_names: one per loss.
        scale: of the first loss.
        loss_pow: its power.
        relative_diff: divide the differences by a + epsilon.
        epsilon: for that.
    """

    def __init__(
        self,
        loss_names: Sequence[str],
        scale: float = 1.0,
        loss_pow: float = 2.0,
        relative_diff: bool = False,
        epsilon: float = 1e-6,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.loss_names, self.scale, self.loss_pow = list(loss_names), scale, loss_pow
        self.relative_diff, self.epsilon = relative_diff, epsilon
        self.weights = nn.Parameter(torch.zeros(len(self.loss_names), dtype=self.dtype))

    def forward(self, inputs: tuple[Sequence[Tensor], Sequence[Tensor]]) -> tuple[Tensor, Tensor]:
        """Return (loss of the weights, weighted loss)."""
        losses, shared = inputs
        if len(losses) != len(self.loss_names):
            raise ValueError(f"layer {self.name!r} has losses {self.loss_names}, got {len(losses)}")
        weights = torch.softmax(self.weights, dim=0)
        lengths = torch.stack([_gradient_length(loss, list(shared)) for loss in losses])
        weighted = lengths * weights
        difference = weighted - weighted.mean()
        if self.relative_diff:
            difference = difference / (weighted.mean() + self.epsilon)
        gnorm_loss = self.scale * difference.abs().pow(self.loss_pow).sum()
        return gnorm_loss, (torch.stack(list(losses)) * weights.detach()).sum()


def _gradient_length(loss: Tensor, shared: list[Tensor]) -> Tensor:
    gradients = torch.autograd.grad(loss, shared, retain_graph=True, allow_unused=True)
    return torch.cat([one.flatten() for one in gradients if one is not None]).square().sum().sqrt().detach()
