"""One pooled row per bag of ids."""

from collections.abc import Callable
from typing import Self, TypedDict, Unpack, get_args

import torch
from torch import Tensor
from torch.nn import functional

from monolith._core import native
from monolith.embedding.admission import AdmissionFilter
from monolith.embedding.combiners import PoolKind, pool, pool_unique
from monolith.embedding.config.compressors import Compressor
from monolith.embedding.config.initializers import Initializer
from monolith.embedding.config.optimizers import Optimizer
from monolith.embedding.config.table import TableConfig
from monolith.embedding.hash_embedding.table_module import TableModule
from monolith.embedding.table import flat_ids


class TableOptions(TypedDict, total=False):
    """What `HashEmbedding` takes besides `dim`."""

    optimizer: Optimizer
    initializer: Initializer
    compressor: Compressor
    name: str
    admission: AdmissionFilter | None
    expire_days: int
    max_memory_bytes: int | None
    seed: int
    fused: bool


class HashEmbeddingBag(TableModule):
    """Like `nn.EmbeddingBag`, for any 64-bit ids: the rows of each bag of ids, pooled.

    `mode` is "sum", "mean" or "sqrtn" (sum / sqrt(count)); an empty bag gives zeros. The other options, and all about
    rows and training, are as in `HashEmbedding`. Each id of a batch is looked up once, however often it occurs, and its
    gradient is summed in the order of its occurrences.

    >>> tags = HashEmbeddingBag(1, mode="mean")
    >>> _ = tags.table.assign(torch.tensor([5, 6]), torch.tensor([[1.0], [2.0]]))
    >>> tags(torch.tensor([5, 6, 6]), offsets=torch.tensor([0, 2])).tolist()
    [[1.5], [2.0]]
    """

    mode: PoolKind
    include_last_offset: bool

    def __init__(
        self,
        dim: int,
        mode: PoolKind = "sum",
        *,
        include_last_offset: bool = False,
        **options: Unpack[TableOptions],
    ) -> None:
        """Make an empty table; with `include_last_offset`, offsets end with the number of ids."""
        super().__init__(dim, **options)
        self._set_mode(mode, include_last_offset)

    @classmethod
    def from_config(
        cls,
        config: TableConfig,
        *,
        mode: PoolKind = "sum",
        include_last_offset: bool = False,
        admission: AdmissionFilter | None = None,
        fused: bool = False,
    ) -> Self:
        """Return a bag over a table of any configuration."""
        module = super().from_config(config, admission=admission, fused=fused)
        module._set_mode(mode, include_last_offset)
        return module

    def forward(self, ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return one row per bag, float32 [bags, dim].

        Args:
            ids: int64; [bags, n], or [n] cut into bags by `offsets`.
            offsets: where each bag begins, int64 or int32, ascending from 0; for 1-D ids only.
            per_sample_weights: float32 of the shape of `ids`, factors of the rows; for mode "sum" only. It gets a
                gradient of its own if it asks for one.
        """
        if torch.compiler.is_compiling():
            eager: Callable[..., Tensor] = torch.compiler.disable(self._forward)  # type: ignore[no-untyped-call]
            return eager(ids, offsets, per_sample_weights)
        return self._forward(ids, offsets, per_sample_weights)

    def _forward(self, ids: Tensor, offsets: Tensor | None, per_sample_weights: Tensor | None) -> Tensor:
        self._check_not_traced()
        flat, splits = flat_ids(ids), self._row_splits(ids, offsets)
        plan = native.BatchPlan(self.table.native, flat, True)
        unique_ids = torch.empty(plan.num_unique, dtype=torch.int64)
        inverse = torch.empty(plan.num_ids, dtype=torch.int32)
        plan.write_ids(unique_ids)
        plan.write_inverse(inverse)
        rows = self._rows(unique_ids, plan, unique=True)
        if per_sample_weights is None:
            return pool_unique(rows, inverse.long(), splits, self.mode)
        weights = self._sample_weights(ids, per_sample_weights)
        return pool(functional.embedding(inverse, rows) * weights.unsqueeze(1), splits, "sum")

    def extra_repr(self) -> str:
        """Return what print shows between the parentheses."""
        return f"{super().extra_repr()}, mode={self.mode!r}"

    def _set_mode(self, mode: PoolKind, include_last_offset: bool) -> None:
        if mode not in get_args(PoolKind):
            raise ValueError(f"HashEmbeddingBag: mode must be one of {', '.join(get_args(PoolKind))}, got {mode!r}")
        self.mode = mode
        self.include_last_offset = include_last_offset

    def _row_splits(self, ids: Tensor, offsets: Tensor | None) -> Tensor:
        if ids.dim() == 2:
            if offsets is not None:
                raise ValueError("HashEmbeddingBag: 2-D ids are one bag per line and take no offsets; leave them out")
            num_bags, width = ids.shape
            return torch.arange(num_bags + 1) * width
        if ids.dim() != 1:
            raise ValueError(f"HashEmbeddingBag: ids must be 1-D with offsets, or 2-D, got shape {tuple(ids.shape)}")
        if offsets is None:
            raise ValueError("HashEmbeddingBag: 1-D ids need offsets, the place where each bag begins")
        splits = _checked_offsets(offsets, len(ids))
        if not self.include_last_offset:
            return torch.cat([splits, torch.tensor([len(ids)])])
        if len(splits) == 0 or splits[-1] != len(ids):
            raise ValueError(f"HashEmbeddingBag: with include_last_offset, offsets must end with {len(ids)}")
        return splits

    def _sample_weights(self, ids: Tensor, weights: Tensor) -> Tensor:
        if self.mode != "sum":
            raise ValueError(f"HashEmbeddingBag: per_sample_weights go with mode 'sum', this bag has {self.mode!r}")
        if weights.dtype != torch.float32 or weights.shape != ids.shape:
            raise ValueError(
                f"HashEmbeddingBag: per_sample_weights must be float32 of shape {tuple(ids.shape)}, got "
                f"{weights.dtype} of shape {tuple(weights.shape)}"
            )
        return weights.reshape(-1)


def _checked_offsets(offsets: Tensor, num_ids: int) -> Tensor:
    if offsets.dtype not in (torch.int64, torch.int32) or offsets.dim() != 1 or offsets.device.type != "cpu":
        raise TypeError(
            f"HashEmbeddingBag: offsets must be a vector of int64 or int32 on the CPU, got {offsets.dtype} "
            f"{tuple(offsets.shape)} on {offsets.device}"
        )
    offsets = offsets.long()
    if len(offsets) == 0:
        if num_ids:
            raise ValueError(f"HashEmbeddingBag: no offsets were given for {num_ids} ids")
        return offsets
    if offsets[0] != 0:
        raise ValueError(f"HashEmbeddingBag: offsets must begin with 0, got {int(offsets[0])}")
    falls = (offsets.diff() < 0).nonzero()
    if len(falls):
        place = int(falls[0]) + 1
        raise ValueError(
            f"HashEmbeddingBag: offsets must not fall, but number {place} is {int(offsets[place])} after "
            f"{int(offsets[place - 1])}"
        )
    if offsets[-1] > num_ids:
        raise ValueError(f"HashEmbeddingBag: the last offset {int(offsets[-1])} is beyond the {num_ids} ids")
    return offsets
