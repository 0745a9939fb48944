"""What a dense shard or its worker refuses, and that nothing is half done then."""

import numpy as np
import pytest
import torch
from torch import nn

from monolith.errors import NotFiniteError, PlanMismatchError, RemoteError
from monolith.parallel.dense.layout import DenseLayout
from monolith.parallel.dense.optimizer_path import optimizer_class
from monolith.parallel.dense.requests import DenseRequest
from monolith.wire import Message
from tests.parallel.dense_servers import Net, Servers, assert_same, backward, key
from tests.parallel.dense_servers import servers as servers

T = torch.optim


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_no_shard(bad, servers):
    net = Net()
    remote = servers.created(net, T.SGD(net.trained(), lr=0.1))
    before = remote.tensors()
    backward(net, 0)
    net.last.weight.grad[0, 0] = bad
    with pytest.raises(NotFiniteError, match=r"last\.weight"):
        remote.step(key(0))
    assert_same(remote.tensors(), before)
    assert remote.fetch() == 0


def test_a_shard_checks_for_itself(servers):
    """A worker of another version may send anything; a refused step leaves values, settings and counters alone."""
    net = nn.Linear(2, 1, bias=False)
    remote = servers.worker(addresses=servers.addresses[:1])
    remote.create(net, T.SGD(net.parameters(), lr=0.5))
    shard = servers.shards[0]
    before, layout = shard.tensors(), DenseLayout.of(net, T.SGD(net.parameters()), 1).hash
    batch = {"partition": np.frombuffer(b"p", np.uint8), "range": np.array([0, 4], np.uint64)}

    def step(meta: dict | None = None, **arrays) -> Message:
        good = {"layout": layout, "missing": [], "groups": [{"lr": 0.1}]} | (meta or {})
        found = batch | {"gradients": np.zeros(8, np.uint8)} | arrays
        return Message(type=DenseRequest.STEP, meta=good, arrays=found)

    nan = np.array([np.nan, 0], np.float32).view(np.uint8)
    for wrong, words in [
        (step(gradients=nan), "weight is not finite"),
        (step(gradients=np.zeros(4, np.uint8)), "expected the 8 bytes"),
        (step({"layout": 5}), "same model"),
        (step({"missing": 1}), "without a gradient"),
        (step({"groups": []}), "settings of 1 groups"),
        (step({"groups": [{"learning": 1}]}), "has the settings"),
        (step({"groups": [{"lr": {}}]}), "expected a number"),
        (step({"groups": [{"lr": [1]}]}), "expected a value like"),
        (step(range=np.array([4, 4], np.uint64)), "begin < end"),
        (step(range=np.array([0, 4])), "key of its batch"),
        (Message(type=99), "no dense message has type 99"),
    ]:
        with pytest.raises(RemoteError, match=words):
            servers.send(wrong)
    assert_same(shard.tensors(), before)
    assert shard.global_step == 0 and shard.applied_batches() == {}
    assert servers.send(step()).meta["applied"]


@pytest.mark.parametrize(
    "path",
    ["os.system", "torch.optim.Optimizer", "torch.optim.lr_scheduler", "torch.optim.LBFGS", "torch.optim.nope",
     "torch.optim.__doc__", "monolith.optim.clip_by_norm", "torch.optim.SGD.step", "", None, 7],
)  # fmt: skip
def test_no_other_class_is_made(path, servers):
    with pytest.raises(ValueError, match=r"torch\.optim|parameter server"):
        optimizer_class(path)
    net = nn.Linear(2, 1)
    layout = DenseLayout.of(net, T.SGD(net.parameters()), 1).to_json() | {"optimizer": path if path != "" else "x"}
    meta = {"protocol": 1, "creation": "a", "shard": 0, "global_step": 0, "applied": {}, "layout": layout}
    with pytest.raises(RemoteError):
        servers.send(Message(type=DenseRequest.CREATE, meta=meta))
    assert not servers.shards[0].is_created


def test_what_cannot_live_on_parameter_servers_is_refused_before_anything_is_sent(servers):
    net = Net()

    class Own(T.SGD):
        """Not importable by a parameter server."""

    hooked = T.SGD(net.trained())
    hooked.register_step_pre_hook(lambda *_: None)
    for optimizer, words in [
        (Own(net.trained()), "Own: a parameter server makes"),
        (T.LBFGS(net.trained()), "several times per step"),
        (T.SparseAdam(net.trained()), "belong in a table"),
        (hooked, "step hooks"),
        (T.SGD([nn.Parameter(torch.zeros(5))]), "none of Net's"),
    ]:
        with pytest.raises(ValueError, match=words):
            servers.worker().create(net, optimizer)
    assert not servers.shards[0].is_created
    table = nn.Embedding(4, 2, sparse=True)
    remote = servers.created(table, T.SGD(table.parameters()))
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="belong in a table"):
        remote.step()


def test_another_model_or_no_model_is_named(servers):
    net, other = Net(), nn.Linear(6, 8)
    worker = servers.worker()
    with pytest.raises(ValueError, match="call create"):
        worker.step()
    servers.created(net, T.Adam(net.trained()))
    with pytest.raises(PlanMismatchError, match=r"optimizer 'torch\.optim\.SGD' here, 'torch\.optim\.Adam' there"):
        worker.join(net, T.SGD(net.trained()))
    with pytest.raises(PlanMismatchError, match="same model"):
        worker.join(other, T.Adam(other.parameters()))
    swapped = servers.worker(addresses=servers.addresses[::-1])
    with pytest.raises(RemoteError, match="order of the shards"):
        swapped.join(net, T.Adam(net.trained()))
    empty = Servers(servers.cleanup, 1)
    with pytest.raises(RemoteError, match="no dense parameters yet"):
        empty.send(Message(type=DenseRequest.FETCH))
