"""All layouts of a batch from the rows of its ids: one native call forward, one backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from monolith.data.batch import Column
from monolith.embedding.layout.plan import LayoutPlan
from monolith.embedding.layout.sharded_fids import ShardedFids, shard_columns
from monolith.protos.example_pb2 import FeatureConfigs


class FusedLayout:
    """Shards the ids of a batch, and makes the tensors of all layouts from the rows that were looked up for them.

    The results are those of pooling every slice alone and joining by `torch.cat`, `torch.stack` or adding, and do not
    depend on the number of threads.

    >>> from monolith.features.layouts import FeatMeta, LayoutMeta, TableMeta, make_feature_configs
    >>> table = TableMeta(name="t", slices=(("bias", 1), ("vec", 2)))
    >>> metas = {"user": FeatMeta(slot=1, table=table), "item": FeatMeta(slot=2, table=table)}
    >>> vec = LayoutMeta(joining="CONCAT", slices=(("user", "vec"), ("item", "vec")))
    >>> layout = FusedLayout(make_feature_configs(metas, {"vec": vec}))
    >>> sharded = layout.shard({"user": torch.tensor([7, 7]), "item": torch.tensor([8, 9])})
    >>> sharded.shards["t:0"].tolist()  # "item" comes before "user"
    [8, 9, 7]
    >>> rows = torch.tensor([[0.0, 1, 2], [0, 3, 4], [0, 5, 6]])
    >>> layout.forward({"t:0": rows}, sharded)["vec"][0].tolist()
    [[5.0, 6.0, 1.0, 2.0], [5.0, 6.0, 3.0, 4.0]]
    """

    def __init__(self, feature_configs: FeatureConfigs) -> None:
        """Read and check the configs.

        Raises:
            ValueError: A layout names a feature that is not there, or its slices do not make its shapes.
        """
        self.plan = LayoutPlan.from_configs(feature_configs)

    def shard(
        self,
        features: Mapping[str, Column],
        ps_num: int = 1,
        unique: bool = True,
        *,
        batch_size: int | None = None,
    ) -> ShardedFids:
        """Return the ids of the columns by table and server.

        Args:
            features: Ids by the name of the feature. A single row stands for the whole batch (SHARED); a feature that
                is missing has no ids. Other columns of a batch must be left out.
            ps_num: Number of servers: an id goes to server ``id % ps_num``, taken without sign.
            unique: Whether an id that a feature has several times is looked up once.
            batch_size: Samples; the most rows that a column has if None.
        """
        return shard_columns(self.plan, features, ps_num, unique=unique, batch_size=batch_size)

    def forward(self, embeddings: Mapping[str, Tensor], sharded: ShardedFids) -> dict[str, list[Tensor]]:
        """Return the tensors of each layout, one unless it joins by NONE; differentiable.

        Args:
            embeddings: The rows of each block "table:ps", in the order of ``sharded.shards``: flat, or of any shape
                with as many floats.
            sharded: What `shard` returned for the batch.

        Raises:
            ValueError: A block is missing, is not known, or has not the floats that its ids need.
        """
        names = self.plan.block_names(sharded.ps_num)
        if set(embeddings) != set(names):
            missing, unknown = sorted(set(names) - set(embeddings)), sorted(set(embeddings) - set(names))
            raise ValueError(f"embeddings must have the blocks {names}; missing {missing}, unknown {unknown}")
        blocks = [embeddings[name] for name in names]
        for name, block, size in zip(names, blocks, sharded.emb_size.tolist(), strict=True):
            if block.numel() != size:
                raise ValueError(f"embeddings[{name!r}] has {block.numel()} floats, but its ids have {size}")
        outs = iter(
            layout_tensors(
                self.plan, blocks, sharded.fid_offset, sharded.feature_offset, sharded.nfl_offset, sharded.num_samples
            )
        )
        return {name: [next(outs) for _ in shapes] for name, shapes in self.plan.layouts}


def layout_tensors(
    plan: LayoutPlan,
    blocks: Sequence[Tensor],
    fid_offset: Tensor,
    feature_offset: Tensor,
    nfl_offset: Tensor,
    batch_size: int,
) -> list[Tensor]:
    """Return the tensors of all layouts, by name of the layout and then as configured; differentiable."""
    flat = []
    for number, block in enumerate(blocks):
        if block.dtype != torch.float32 or block.device.type != "cpu":
            raise TypeError(
                f"embeddings must be float32 on the CPU, got {block.dtype} on {block.device} for block {number}"
            )
        flat.append(block.reshape(-1))
    index = (fid_offset.contiguous(), feature_offset.contiguous(), nfl_offset.contiguous(), batch_size)
    outs: tuple[Tensor, ...] = _Layouts.apply(plan, index, *flat)  # type: ignore[no-untyped-call]
    return list(outs)


_Index = tuple[Tensor, Tensor, Tensor, int]
"""fid_offset, feature_offset, nfl_offset and the size of the batch."""


class _Layouts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: LayoutPlan, index: _Index, *blocks: Tensor) -> tuple[Tensor, ...]:
        outs = [torch.empty(shape) for shape in plan.output_shapes(index[-1])]
        plan.native_plan.forward(*index, [block.detach() for block in blocks], [out.view(-1) for out in outs])
        ctx.plan, ctx.index, ctx.sizes = plan, index, [len(block) for block in blocks]
        # A layout that the loss does not use has no gradient; there is no need to make one of zeros.
        ctx.set_materialize_grads(False)
        return tuple(outs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        flat = [torch.empty(0) if grad is None else grad.reshape(-1).contiguous() for grad in grads]
        out = [torch.zeros(size) for size in ctx.sizes]
        ctx.plan.native_plan.backward(*ctx.index, flat, out)
        return None, None, *out
