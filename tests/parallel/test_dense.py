"""Dense parameters on parameter servers: the same bits as in one process, whatever happens on the way."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

from monolith import optim
from monolith.checkpoint import dense_tensors, restore_dense_tensors
from monolith.errors import RemoteError
from monolith.optim.scheduled import ScheduledOptimizer
from monolith.parallel import BatchKey, DenseShard, RemoteDense
from monolith.parallel.dense.layout import DenseLayout, balanced
from monolith.parallel.dense.optimizer_path import optimizer_path
from monolith.parallel.dense.requests import DenseRequest
from monolith.wire import Message, listen
from tests.parallel.conftest import QUICK, SECRET
from tests.parallel.dense_servers import Net, assert_same, backward, key
from tests.parallel.dense_servers import servers as servers
from tests.patience import PATIENCE_SECONDS

T, M = torch.optim, optim
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda ps: T.SGD(ps, lr=0.1),
    "sgd momentum": lambda ps: T.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda ps: T.Adam(ps, lr=0.01, amsgrad=True),
    "adam fused": lambda ps: T.Adam(ps, lr=0.01, fused=True),
    "adam rate in a tensor": lambda ps: T.Adam(ps, lr=torch.tensor(0.01)),
    "adamw": lambda ps: T.AdamW(ps, lr=0.01, betas=(0.8, 0.99)),
    "adagrad": lambda ps: T.Adagrad(ps, lr=0.05, initial_accumulator_value=0.1),
    "adadelta": lambda ps: T.Adadelta(ps),
    "adamax": lambda ps: T.Adamax(ps),
    "nadam": lambda ps: T.NAdam(ps),
    "radam": lambda ps: T.RAdam(ps, lr=0.01),
    "rmsprop": lambda ps: T.RMSprop(ps, momentum=0.5, centered=True),
    "rprop": lambda ps: T.Rprop(ps),
    "asgd": lambda ps: T.ASGD(ps, t0=2),
    "adafactor": lambda ps: T.Adafactor(ps),
    "muon": lambda ps: T.Muon([one for one in ps if one.dim() == 2]),
    "adamom": lambda ps: M.DenseAdamomOptimizer(ps, learning_rate=0.01, use_v2=True),
    "dense rmsprop": lambda ps: M.DenseRmspropOptimizer(ps, learning_rate=lambda step: 0.1 / (step + 1)),
    "shampoo": lambda ps: M.ShampooOptimizer(ps, learning_rate=0.01, warmup=1, tau_1=1, tau_2=1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameter_servers_give_the_bits_of_one_process(name, servers):
    here, there = Net(), Net()
    local, proxy = OPTIMIZERS[name](here.trained()), OPTIMIZERS[name](there.trained())
    remote = servers.created(there, proxy)
    for batch in range(6):
        backward(here, batch)
        local.step()
        backward(there, batch)
        assert remote.step(key(batch)) == batch + 1
        for mine, theirs in zip(here.parameters(), there.parameters(), strict=True):
            assert torch.equal(mine, theirs)
    assert_same(remote.tensors(), dense_tensors(here, local))


def test_the_joined_tensors_continue_in_one_process(servers):
    here, there = Net(), Net()
    local = T.Adam(here.trained(), lr=0.01)
    remote = servers.created(there, T.Adam(there.trained(), lr=0.01))
    for batch in range(3):
        backward(there, batch)
        remote.step(key(batch))
    restore_dense_tensors(here, local, remote.tensors())
    for batch in range(3, 5):
        backward(here, batch)
        local.step()
        backward(there, batch)
        remote.step(key(batch))
    assert_same(remote.tensors(), dense_tensors(here, local))


def test_a_run_continues_on_another_number_of_servers(servers):
    here, there = Net(), Net()
    local, proxy = T.Adagrad(here.trained()), T.Adagrad(there.trained())
    for batch in range(2):
        backward(here, batch)
        local.step()
    restore_dense_tensors(there, proxy, dense_tensors(here, local))
    one = servers.worker(addresses=servers.addresses[:1])
    one.create(there, proxy, global_step=2, applied={"clicks": 32})
    backward(here, 2)
    local.step()
    backward(there, 1)
    assert one.step(key(1)) == 2, "it is in the values already"
    backward(there, 2)
    assert one.step(key(2)) == 3
    assert torch.equal(here.first.weight, there.first.weight)


def test_settings_that_change_between_steps_arrive(servers):
    here, there = Net(), Net()
    local, proxy = (
        T.SGD([{"params": net.trained()[:2], "lr": 0.5}, {"params": net.trained()[2:]}], lr=0.1, momentum=0.5)
        for net in (here, there)
    )
    remote = servers.created(there, proxy)
    for batch in range(3):
        for optimizer in (local, proxy):
            optimizer.param_groups[0]["lr"] = 0.3 / (batch + 1)
            optimizer.param_groups[1]["momentum"] = 0.1 * batch
        backward(here, batch)
        local.step()
        backward(there, batch)
        remote.step(key(batch))
    assert_same(remote.tensors(), dense_tensors(here, local))


def test_named_groups_keep_their_names(servers):
    here, there = Net(), Net()
    local, proxy = (T.Adam([one for one in net.named_parameters() if one[1].requires_grad]) for net in (here, there))
    remote = servers.created(there, proxy)
    backward(here, 0)
    local.step()
    backward(there, 0)
    remote.step(key(0))
    assert_same(remote.tensors(), dense_tensors(here, local))


def test_every_type_of_weight_comes_back_as_it_was(servers):
    net = nn.ParameterList(torch.ones(3, dtype=kind) for kind in (torch.float64, torch.float16, torch.bfloat16))
    remote = servers.created(net, T.SGD(net.parameters(), lr=0.125))
    for one in net.parameters():
        one.grad = torch.full_like(one, 2.0)
    remote.step()
    assert all(one.eq(0.75).all() for one in net.parameters())


def test_a_model_without_an_optimizer_has_its_buffers_kept(servers):
    net = Net().requires_grad_(False)
    remote = servers.created(net, None)
    assert remote.step(key(0)) == 1
    assert_same(remote.tensors(), dense_tensors(net, None))


def test_a_batch_is_applied_once(servers):
    net = Net()
    remote = servers.created(net, T.SGD(net.trained(), lr=0.1))
    backward(net, 0)
    assert remote.step(key(0)) == 1
    after = remote.tensors()
    assert remote.step(key(0)) == 1
    assert_same(remote.tensors(), after)
    assert servers.shards[0].applied_batches() == servers.shards[1].applied_batches() == {"clicks": 16}
    assert remote.step(key(0, "views")) == 2, "another partition has offsets of its own"
    with pytest.raises(RemoteError, match=r"\[8, 24\).*begins before 16"):
        remote.step(BatchKey("clicks", 8, 24))


def test_a_batch_whose_reply_was_lost_is_applied_once():
    """The reply to the first step is thrown away with its connection; the retry must not step again."""
    shard, lost = DenseShard(), []

    def answer(message: Message) -> Message:
        reply = shard.answer(message)
        if message.type == DenseRequest.STEP and not lost:
            lost.append(message)
            client._drop()
        return reply

    with listen("127.0.0.1:0", answer, secret=SECRET) as server:
        with RemoteDense([server.address], secret=SECRET, retry=QUICK) as remote:
            client = remote._clients._clients[0]
            net = nn.Linear(2, 1)
            remote.create(net, T.SGD(net.parameters(), lr=1.0))
            before = net.weight.detach().clone()
            net.weight.grad, net.bias.grad = torch.ones(1, 2), torch.ones(1)
            assert remote.step(key(0)) == 1
            assert lost and torch.equal(net.weight, before - 1)


def test_a_creation_whose_reply_was_lost_does_not_undo_steps(servers):
    net = nn.Linear(2, 1)
    sent: list[Message] = []
    remote = servers.worker(addresses=servers.addresses[:1])
    ask = remote._clients.ask
    remote._clients.ask = lambda messages: sent.extend(messages.values()) or ask(messages)  # type: ignore[method-assign]
    remote.create(net, T.SGD(net.parameters(), lr=1.0))
    net.weight.grad = torch.ones(1, 2)
    remote.step()
    servers.send(sent[0])
    assert torch.equal(servers.shards[0].tensors()["model/weight"], net.weight)


def test_workers_at_the_same_time_lose_no_gradient(servers):
    """Sums of whole numbers have no order: every lost or doubled gradient would show."""
    net = nn.Linear(512, 256)
    nn.init.zeros_(net.weight)
    chief = servers.created(net, T.SGD(net.parameters(), lr=1.0))

    def work(index: int) -> None:
        mine = nn.Linear(512, 256)
        worker = servers.worker()
        worker.join(mine, T.SGD(mine.parameters(), lr=1.0))
        for batch in range(10):
            mine.weight.grad = torch.full((256, 512), float(index + 1))
            mine.bias.grad = None
            worker.step(key(batch, f"partition {index}"))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert chief.fetch() == 40
    assert net.weight.eq(-10 * (1 + 2 + 3 + 4)).all()


def test_a_worker_waits_for_the_chief_and_starts_with_its_values(servers):
    chiefs, mine = Net(seed=1), Net(seed=2)
    chiefs.norm.running_mean.fill_(3.0)
    worker = servers.worker()
    joining = threading.Thread(target=lambda: worker.join(mine, T.Adam(mine.trained())))
    joining.start()
    servers.created(chiefs, T.Adam(chiefs.trained()), global_step=7)
    joining.join(PATIENCE_SECONDS)
    assert worker.global_step == 7
    assert_same(mine.state_dict(), chiefs.state_dict())


def test_buffers_are_the_chiefs(servers):
    chiefs, mine = Net(), Net()
    chief = servers.created(chiefs, T.Adam(chiefs.trained()))
    worker = servers.worker()
    worker.join(mine, T.Adam(mine.trained()))
    backward(chiefs, 0)
    chief.step(key(0))
    for batch in range(1, 4):
        backward(mine, batch)
        worker.step(key(batch))
    saved = chief.tensors()
    assert torch.equal(saved["model/norm.running_mean"], chiefs.norm.running_mean)
    assert not torch.equal(mine.norm.running_mean, chiefs.norm.running_mean)


def test_unchanged_values_do_not_travel_again(servers):
    net = Net()
    remote = servers.created(net, T.Adam(net.trained()))
    remote.fetch()
    with torch.no_grad():
        net.last.bias.fill_(5.0)
    remote.fetch()
    assert net.last.bias == 5.0, "fetch copied values that this worker had already"


def test_parameters_are_balanced_by_size():
    sizes = [512 * 256, 256 * 128, 128, 128 * 64, 64, 64, 1, 300 * 300]
    owners = balanced(sizes, 3)
    loads = [sum(size for size, owner in zip(sizes, owners, strict=True) if owner == shard) for shard in range(3)]
    assert max(loads) == max(sizes), "no shard has more than the largest tensor"
    assert sorted(set(owners)) == [0, 1, 2]
    net = Net()
    assert DenseLayout.of(net, T.SGD(net.trained()), 2).used_shards() == [0, 1]


def test_a_shard_is_restored_by_itself(servers):
    net = Net()
    remote = servers.created(net, T.Adam(net.trained()))
    backward(net, 0)
    remote.step(key(0))
    saved = remote.tensors()
    backward(net, 1)
    remote.step(key(1))
    other = servers.shards[0].tensors()
    servers.shards[1].restore(saved, applied={"clicks": 16})
    assert_same(servers.shards[0].tensors(), other)
    assert all(torch.equal(saved[name], one) for name, one in servers.shards[1].tensors().items() if "json" not in name)
    assert servers.shards[1].applied_batches() == {"clicks": 16}


def test_a_restore_of_another_model_changes_nothing(servers):
    net = Net()
    remote = servers.created(net, T.Adam(net.trained()))
    before = remote.tensors()
    layout = DenseLayout.of(net, T.Adam(net.trained()), 2)
    owner = servers.shards[layout.owners[[spec.name for spec in layout.parameters].index("first.weight")]]
    with pytest.raises(ValueError, match="another model"):
        owner.restore(before | {"model/first.weight": torch.zeros(2, 2)})
    with pytest.raises(ValueError, match="no dense tensor"):
        owner.restore({name: one for name, one in before.items() if not name.startswith("model/")})
    assert_same(remote.tensors(), before)


def test_every_optimizer_is_tried_here():
    """A new optimizer of torch or Monolith needs a line in OPTIMIZERS."""
    tried = {optimizer_path(make([nn.Parameter(torch.zeros(2, 2))])) for make in OPTIMIZERS.values()}
    found = set()
    for package, module in (("torch.optim", torch.optim), ("monolith.optim", optim)):
        for name, one in vars(module).items():
            if isinstance(one, type) and issubclass(one, torch.optim.Optimizer):
                found.add(f"{package}.{name}")
    left_out = {"torch.optim.Optimizer", "torch.optim.LBFGS", "torch.optim.SparseAdam"}
    assert tried == found - left_out
    assert issubclass(optim.DenseAdamomOptimizer, ScheduledOptimizer)
