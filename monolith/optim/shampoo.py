"""Shampoo: gradients multiplied, along every axis, by an inverse root of what they were like."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from monolith.optim.scheduled import Rate, ScheduledOptimizer


def eigen_inverse_root(
    mat: Tensor, p: int, head: int, tail: int, damping: float = 1e-3
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mat^(-1/p) as eigenvectors [d, e], eigenvalues less an offset [e], and the offset.

    Of the eigenvalues in rising order, those up to `damping` at the front are passed over, the next `head` and the last
    `tail` kept, and the rest replaced by the offset: the mean of the plain eigenvalues between, as the original has
    it. All are kept if head and tail are more than there are.
    """
    values, vectors = torch.linalg.eigh(mat)
    dim = mat.shape[0]
    above = torch.nonzero(values > damping)
    skipped = int(above.min()) if len(above) else 0
    if head + tail > dim:
        skipped, head, tail = 0, dim, 0
    elif skipped + head + tail > dim:
        skipped = dim - head - tail
    powered = values.clamp(min=damping) ** (-1.0 / p)
    kept = torch.cat([torch.arange(skipped, skipped + head), torch.arange(dim - tail, dim)])
    between = values[skipped + head : dim - tail]
    offset = between.mean() if skipped + head + tail != dim else values.new_zeros(())
    return vectors[:, kept], powered[kept] - offset, offset


def apply_sparse_precond(tensor: Tensor, pvec: Tensor, pval: Tensor, offset: Tensor) -> Tensor:
    """Return the tensor multiplied along its first axis by (pvec pval pvecᵀ + offset), that axis moved to the end."""
    reduced = torch.tensordot(tensor, pvec, dims=([0], [0])) * pval
    expanded: Tensor = torch.tensordot(reduced, pvec, dims=([-1], [-1]))
    return expanded + tensor.movedim(0, -1) * offset


class ShampooOptimizer(ScheduledOptimizer):
    """Adagrad with momentum for `warmup` steps, then blended over as many more into preconditioned gradients.

    Statistics are taken every `tau_2` steps and roots every `tau_1`. Slots per axis i of a parameter: s_i, g_i [d, d],
    pvec_i [d, e], pval_i [e], o_i; and d, m, pm of its shape. (The original raised an op object for sparse gradients;
    here that is a NotImplementedError.)
    """

    def __init__(
        self,
        params: Iterable[Any],
        learning_rate: Rate = 0.03,
        beta_1: float = 0.9,
        beta_2: float = 1.0,
        warmup: int = 5000,
        tau_1: int = 200,
        tau_2: int = 20,
        eigen_head: int = 100,
        eigen_tail: int = 100,
        damping_epsilon: float = 1e-3,
    ) -> None:
        """Take the original's defaults."""
        for name, value in (("warmup", warmup), ("tau_1", tau_1), ("tau_2", tau_2)):
            if value < 1:
                raise ValueError(f"ShampooOptimizer: {name} must be at least 1, got {value}")
        settings = dict(
            beta_1=beta_1,
            beta_2=beta_2,
            warmup=warmup,
            tau_1=tau_1,
            tau_2=tau_2,
            eigen_head=eigen_head,
            eigen_tail=eigen_tail,
            damping_epsilon=damping_epsilon,
        )
        super().__init__(params, learning_rate, settings)

    def update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """Change one parameter and its slots."""
        d, m, pm = self.slots(parameter, "d", "m", "pm")
        preconditioned = self._precondition(parameter, gradient, group)
        beta, step, warmup = group["beta_1"], group["step"], group["warmup"]
        d.addcmul_(gradient, gradient)
        m.mul_(beta).add_(gradient * (d + 1e-30).rsqrt(), alpha=1 - beta)
        pm.mul_(beta).add_(preconditioned, alpha=1 - beta)
        ramp = min(max(step / warmup - 1, 0.0), 1.0) if step > warmup else 0.0
        second = m.norm() / (pm.norm() + 1e-10) * pm
        parameter.sub_(((1 - ramp) * m + ramp * second) * group["lr"])

    def _precondition(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
        state, step, rank = self.state[parameter], group["step"], gradient.dim()
        result = gradient
        for axis, size in enumerate(gradient.shape):
            self._make_axis_slots(state, axis, size, group)
            statistics = state[f"s{axis}"]
            if step % group["tau_2"] == 0:
                others = [one for one in range(rank) if one != axis]
                state[f"g{axis}"].copy_(torch.tensordot(gradient, gradient, dims=(others, others)))
            if group["beta_2"] < 1 - 1e-10:
                statistics.mul_(group["beta_2"]).add_(state[f"g{axis}"], alpha=1 - group["beta_2"])
            else:
                statistics.add_(state[f"g{axis}"])
            if step > group["warmup"] and step % group["tau_1"] == 0:
                found = eigen_inverse_root(
                    statistics, 2 * rank, group["eigen_head"], group["eigen_tail"], group["damping_epsilon"]
                )
                for name, value in zip(("pvec", "pval", "o"), found, strict=True):
                    state[f"{name}{axis}"].copy_(value)
            result = apply_sparse_precond(result, *(state[f"{name}{axis}"] for name in ("pvec", "pval", "o")))
        return result

    def _make_axis_slots(self, state: dict[str, Tensor], axis: int, size: int, group: dict[str, Any]) -> None:
        if f"s{axis}" in state:
            return
        like = state["d"]
        kept = min(size, group["eigen_head"] + group["eigen_tail"])
        shapes = {"s": (size, size), "g": (size, size), "pvec": (size, kept), "pval": (kept,), "o": ()}
        for name, shape in shapes.items():
            state[f"{name}{axis}"] = like.new_zeros(shape)
