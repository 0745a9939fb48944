"""Rows of several modules, stepped where a loop steps a `torch.optim.Optimizer`."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from monolith.embedding.hash_embedding.table_module import TableModule


class RowOptimizer(Optimizer):
    """Steps the rows of modules: `zero_grad`, `backward`, `step`, as with any optimizer of torch.

    The rule is each table's own (`optimizer=` of the module). Every module is a parameter group; its `"lr"` is the
    learning rate of all its rows, so schedulers of torch work. It begins as the configured rate; None, where that is a
    function of the step or differs between segments, leaves the configured rates in force. Modules step one by one: an
    error in the second leaves the first stepped.

    >>> from monolith.embedding import SgdOptimizer
    >>> from monolith.embedding.hash_embedding import HashEmbedding
    >>> users, items = (HashEmbedding(1, optimizer=SgdOptimizer(learning_rate=0.5)) for _ in range(2))
    >>> rows = RowOptimizer([users, items])
    >>> [group["lr"] for group in rows.param_groups]
    [0.5, 0.5]
    """

    def __init__(self, modules: Sequence[TableModule], *, lr: float | None = None) -> None:
        """Take the modules of one model; `lr` replaces their configured learning rates."""
        self.modules = list(modules)
        for module in self.modules:
            if not isinstance(module, TableModule):
                raise TypeError(f"RowOptimizer: needs HashEmbedding or HashEmbeddingBag modules, got {module!r}")
            if module.fused:
                raise ValueError(
                    f"RowOptimizer: table {module.table.config.name!r} is fused, its backward pass steps the rows; "
                    "make it with fused=False or leave it out"
                )
        if not self.modules:
            raise ValueError("RowOptimizer: needs at least one module, got none")
        # torch wants tensors in a group; rows are not, so an empty one stands for them.
        groups: list[dict[str, Any]] = [
            {"params": [torch.empty(0)], "lr": _constant_rate(module) if lr is None else lr} for module in self.modules
        ]
        super().__init__(groups, {})

    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None, *, global_step: int | None = None, time: int | None = None
    ) -> float | None:
        """Step every row that got a gradient; see `HashEmbedding.step`. Returns what the closure did."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for module, group in zip(self.modules, self.param_groups, strict=True):
            module.step(global_step=global_step, time=time, learning_rate=group["lr"])
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients collected since the last step."""
        for module in self.modules:
            module.zero_grad(set_to_none)


def _constant_rate(module: TableModule) -> float | None:
    config = module.table.config
    rates = config.learning_rates or tuple(segment.optimizer.learning_rate_fn() for segment in config.segments)
    if any(callable(rate) for rate in rates) or len(set(rates)) != 1:
        return None
    return config.learning_rate_values(0)[0]
