"""One row per id."""

from collections.abc import Callable

import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding.hash_embedding.table_module import TableModule
from monolith.embedding.table import flat_ids


class HashEmbedding(TableModule):
    """Like `nn.Embedding`, for any 64-bit ids: a row of `dim` floats each, in a hash table that grows with them.

    An id that has no row reads as zeros. Its row comes into being, with the initializer's value, at the first training
    step that brings it a gradient; looking at it does not make one.

    Rows are not parameters: `model.parameters()` knows nothing of them, and `loss.backward()` collects their gradients
    here. Then `step()` steps each row once with the sum of its gradients (`RowOptimizer` does so for several modules,
    in the form of a `torch.optim.Optimizer`). With `fused=True` the backward pass steps them at once, and each forward
    pass counts as a step of its own. In eval mode and under `torch.no_grad()` nothing is collected.

    >>> from monolith.embedding import SgdOptimizer, ZerosInitializer
    >>> users = HashEmbedding(2, optimizer=SgdOptimizer(learning_rate=0.5), initializer=ZerosInitializer())
    >>> ids = torch.tensor([7, 2**60, 7])
    >>> users(ids).sum().backward()
    >>> users.step().inserted
    2
    >>> users(ids).tolist()
    [[-1.0, -1.0], [-0.5, -0.5], [-1.0, -1.0]]
    """

    def forward(self, ids: Tensor) -> Tensor:
        """Return float32 of shape [*ids.shape, dim] for int64 `ids` of any shape."""
        if torch.compiler.is_compiling():
            # Decorating the method instead would import the compiler, seconds, with every `import monolith`.
            eager: Callable[..., Tensor] = torch.compiler.disable(self._forward)  # type: ignore[no-untyped-call]
            return eager(ids)
        return self._forward(ids)

    def _forward(self, ids: Tensor) -> Tensor:
        self._check_not_traced()
        flat = flat_ids(ids)
        training = self.training and torch.is_grad_enabled()
        # Repeated ids matter to the step alone; a plan that only reads does not look for them.
        plan = native.BatchPlan(self.table.native, flat, training)
        return self._rows(flat, plan, unique=False).view(*ids.shape, self.dim)
