"""TorchRec on two gloo ranks: DLRM whose tables are sharded by rows, with fused Adagrad."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torchrec import (  # type: ignore[import-not-found]
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    KeyedJaggedTensor,
)
from torchrec.distributed import DistributedModelParallel  # type: ignore[import-not-found]
from torchrec.distributed.sharding_plan import (  # type: ignore[import-not-found]
    construct_module_sharding_plan,
    get_default_sharders,
    row_wise,
)
from torchrec.distributed.types import ShardingPlan  # type: ignore[import-not-found]
from torchrec.optim.apply_optimizer_in_backward import (  # type: ignore[import-not-found]
    apply_optimizer_in_backward,
)

from benchmarks.peers.clicks.made_events import columns_of
from benchmarks.peers.clicks.nets import make_net
from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from benchmarks.peers.protocol import Operation, serve

_TIMEOUT = timedelta(seconds=600)


class _Model(nn.Module):
    def __init__(self, shape: ClickShape) -> None:
        super().__init__()
        tables = [
            EmbeddingBagConfig(
                name=name,
                feature_names=[name],
                num_embeddings=count,
                embedding_dim=shape.dim,
                weight_init_min=-shape.row_scale,
                weight_init_max=shape.row_scale,
            )
            for name, count in zip(ID_NAMES, shape.table_rows, strict=True)
        ]
        self.tables = EmbeddingBagCollection(tables=tables, device=torch.device("meta"))
        apply_optimizer_in_backward(torch.optim.Adagrad, self.tables.parameters(), {"lr": shape.row_learning_rate})
        self.net = make_net(shape)
        self._dim = shape.dim

    def forward(self, ids: KeyedJaggedTensor, dense: Tensor) -> Tensor:
        rows = self.tables(ids).values().view(-1, len(ID_NAMES), self._dim)
        logit: Tensor = self.net(rows, dense)
        return logit


class _Rank:
    def __init__(self, settings: dict[str, Any]) -> None:
        shape = self._shape = ClickShape.of(settings["shape"])
        torch.set_num_threads(shape.num_threads)
        rank, num_ranks = settings["rank"], settings["num_ranks"]
        os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(num_ranks)}
        store = dist.FileStore(f"{settings['folder']}/meeting-{settings['name']}", num_ranks)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=num_ranks, timeout=_TIMEOUT)
        model = _Model(shape)
        plan = construct_module_sharding_plan(
            model.tables,
            {name: row_wise() for name in ID_NAMES},
            world_size=num_ranks,
            local_size=num_ranks,
            device_type="cpu",
        )
        self._model = DistributedModelParallel(
            model, device=torch.device("cpu"), plan=ShardingPlan({"tables": plan}), sharders=get_default_sharders()
        )
        dense = [one for name, one in self._model.named_parameters() if ".net." in f".{name}"]
        self._optimizer = torch.optim.Adagrad(dense, lr=shape.learning_rate, fused=True)
        columns = columns_of(settings, settings["world"], rank, num_ranks)
        self._offsets = torch.arange(len(ID_NAMES) * shape.batch_size + 1)
        self._batches = [
            {name: one[begin : begin + shape.batch_size] for name, one in columns.items()}
            for begin in range(0, len(columns["label"]), shape.batch_size)
        ]
        self._next = 0

    def train(self, seed: int) -> tuple[float, int]:
        """Train on the next batches; returns the seconds."""
        start = time.perf_counter()
        for _ in range(self._shape.num_steps):
            self._step(self._batches[self._next])
            self._next += 1
        return time.perf_counter() - start, 0

    def _step(self, columns: dict[str, Tensor]) -> None:
        rows = torch.cat([columns[name] - 1 for name in ID_NAMES])
        ids = KeyedJaggedTensor.from_offsets_sync(list(ID_NAMES), rows, self._offsets)
        logit = self._model(ids, columns["dense"])
        loss = nn.functional.binary_cross_entropy_with_logits(logit, columns["label"])
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        loss.item()


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Build the rank that the settings describe."""
    return {"train": _Rank(settings).train}


if __name__ == "__main__":
    serve(setup)
