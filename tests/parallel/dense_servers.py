"""A model and dense shards for tests."""

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from monolith.parallel import BatchKey, DenseShard, RemoteDense
from monolith.wire import Address, Message, connect, listen
from tests.parallel.conftest import QUICK, SECRET


class Net(nn.Module):
    """Weights of several sizes, buffers, a frozen and a tied weight, and one that not every batch uses."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 1)
        self.sometimes = nn.Parameter(torch.ones(1, 1))
        self.frozen = nn.Parameter(torch.full((3,), 2.0), requires_grad=False)
        self.tied = nn.Linear(6, 8)
        self.tied.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        out = self.last(torch.relu(self.norm(self.first(x) + self.tied(x)))).squeeze(1)
        return out * self.sometimes.squeeze() if x[0, 0] > 0 else out

    def trained(self) -> list[nn.Parameter]:
        return [one for one in self.parameters() if one.requires_grad]


def backward(net: nn.Module, batch: int) -> None:
    net.zero_grad()
    x = torch.from_numpy(np.random.default_rng(batch).normal(size=(16, 6)).astype(np.float32))
    (net(x) - x.sum(1)).square().mean().backward()


def key(batch: int, partition: str = "clicks") -> BatchKey:
    return BatchKey(partition, 16 * batch, 16 * (batch + 1))


def assert_same(got: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        assert got[name].dtype == value.dtype and torch.equal(got[name], value), name


class Servers:
    """Dense shards at addresses of their own."""

    def __init__(self, cleanup: ExitStack, num_shards: int) -> None:
        self.cleanup = cleanup
        self.shards = [DenseShard() for _ in range(num_shards)]
        self.addresses: list[Address] = [
            cleanup.enter_context(listen("127.0.0.1:0", shard.answer, secret=SECRET)).address for shard in self.shards
        ]

    def worker(self, **settings) -> RemoteDense:
        return self.cleanup.enter_context(
            RemoteDense(settings.pop("addresses", self.addresses), secret=SECRET, retry=QUICK, **settings)
        )

    def created(self, net: nn.Module, optimizer: torch.optim.Optimizer | None, **settings) -> RemoteDense:
        worker = self.worker()
        worker.create(net, optimizer, **settings)
        return worker

    def send(self, message: Message, shard: int = 0) -> Message:
        with connect(self.addresses[shard], secret=SECRET) as client:
            return client.request(message)


@pytest.fixture
def servers() -> Iterator[Servers]:
    with ExitStack() as cleanup:
        yield Servers(cleanup, 2)
