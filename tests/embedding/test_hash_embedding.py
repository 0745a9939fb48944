"""HashEmbedding against nn.Embedding with torch's optimizers, and what a PyTorch loop expects of a module."""

import pytest
import torch
from torch import nn

from monolith import HashEmbedding, HashEmbeddingBag, RowOptimizer
from monolith.embedding import AdagradOptimizer, AdamOptimizer, SgdOptimizer, ZerosInitializer
from monolith.embedding.hash_embedding.table_module import MANY_GRADIENTS

NUM_IDS = 50
DIM = 6


def pair(optimizer, seed=0):
    """Return a HashEmbedding and an nn.Embedding that hold the same rows."""
    torch.manual_seed(seed)
    dense = nn.Embedding(NUM_IDS, DIM)
    hashed = HashEmbedding(DIM, optimizer=optimizer)
    hashed.table.assign(torch.arange(NUM_IDS), dense.weight.detach())
    return hashed, dense


def rows(hashed):
    return hashed.table.lookup(torch.arange(NUM_IDS))


def loss_of(embedded, target):
    return ((embedded - target) ** 2).sum()


@pytest.mark.parametrize("rule", ["sgd", "adagrad"])
def test_trains_like_nn_embedding(rule):
    ours, theirs = {
        "sgd": (SgdOptimizer(learning_rate=0.01), lambda p: torch.optim.SGD(p, lr=0.01)),
        "adagrad": (
            AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.5),
            lambda p: torch.optim.Adagrad(p, lr=0.1, initial_accumulator_value=0.5, eps=0),
        ),
    }[rule]
    hashed, dense = pair(ours)
    optimizer = theirs(dense.parameters())
    for _ in range(60):
        ids, target = torch.randint(NUM_IDS, (7, 3)), torch.randn(7, 3, DIM)
        for module in (hashed, dense):
            loss_of(module(ids), target).backward()
        hashed.step()
        optimizer.step()
        optimizer.zero_grad()
    torch.testing.assert_close(rows(hashed), dense.weight.detach(), rtol=1e-5, atol=1e-6)


def test_one_sgd_step_is_exactly_torchs():
    hashed, dense = pair(SgdOptimizer(learning_rate=0.25))
    optimizer = torch.optim.SGD(dense.parameters(), lr=0.25)
    for _ in range(20):
        ids, target = torch.randperm(NUM_IDS)[:9], torch.randn(9, DIM)
        for module in (hashed, dense):
            loss_of(module(ids), target).backward()
        hashed.step()
        optimizer.step()
        optimizer.zero_grad()
        assert torch.equal(rows(hashed), dense.weight.detach())


def test_an_unknown_id_reads_as_zeros_and_gets_its_row_with_the_first_step():
    hashed = HashEmbedding(2, optimizer=SgdOptimizer(learning_rate=1.0), initializer=ZerosInitializer())
    ids = torch.tensor([[-(2**63), 2**63 - 1], [0, 0]])
    out = hashed(ids)
    assert out.shape == (2, 2, 2)
    assert not out.any()
    assert hashed.num_rows == 0
    out.backward(torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]))
    assert hashed.step().inserted == 3
    assert hashed(ids).tolist() == [[[-1, -2], [-3, -4]], [[-12, -14], [-12, -14]]]


def test_several_forwards_are_one_step_per_id():
    hashed, dense = pair(AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.1))
    optimizer = torch.optim.Adagrad(dense.parameters(), lr=0.1, initial_accumulator_value=0.1, eps=0)
    for _ in range(10):
        batches = [(torch.randint(NUM_IDS, (11,)), torch.randn(11, DIM)) for _ in range(3)]
        for module in (hashed, dense):
            # Two in one graph, one accumulated by a second backward.
            (loss_of(module(batches[0][0]), batches[0][1]) + loss_of(module(batches[1][0]), batches[1][1])).backward()
            loss_of(module(batches[2][0]), batches[2][1]).backward()
        hashed.step()
        optimizer.step()
        optimizer.zero_grad()
    torch.testing.assert_close(rows(hashed), dense.weight.detach(), rtol=1e-5, atol=1e-6)


def test_sums_in_the_order_of_the_forward_passes():
    hashed = HashEmbedding(1, optimizer=SgdOptimizer(learning_rate=1.0), initializer=ZerosInitializer())
    id_ = torch.tensor([1])
    first, second, third = (hashed(id_) for _ in range(3))
    third.backward(torch.tensor([[1.0]]))
    first.backward(torch.tensor([[2.0**24]]))
    second.backward(torch.tensor([[-(2.0**24)]]))
    hashed.step()
    # (2**24 - 2**24) + 1; in the order of the backward passes the 1 would be lost.
    assert hashed(id_).item() == -1.0


def test_fused_steps_in_the_backward_pass():
    hashed = HashEmbedding(2, optimizer=SgdOptimizer(learning_rate=1.0), initializer=ZerosInitializer(), fused=True)
    hashed(torch.tensor([4, 4])).sum().backward()
    assert hashed.table.lookup(torch.tensor([4])).tolist() == [[-2.0, -2.0]]
    assert hashed.global_step == 1


@pytest.mark.parametrize("quiet", ["eval", "no_grad", "inference_mode"])
def test_nothing_is_collected_where_nothing_trains(quiet):
    hashed, _ = pair(SgdOptimizer(learning_rate=1.0))
    before = rows(hashed)
    if quiet == "eval":
        out = hashed.eval()(torch.tensor([1]))
    else:
        with getattr(torch, quiet)():
            out = hashed(torch.tensor([1]))
    assert not out.requires_grad
    hashed.step()
    assert torch.equal(rows(hashed), before)


def test_zero_grad_discards():
    hashed, _ = pair(SgdOptimizer(learning_rate=1.0))
    before = rows(hashed)
    hashed(torch.tensor([1])).sum().backward()
    hashed.zero_grad()
    hashed.step()
    assert torch.equal(rows(hashed), before)


def test_gradients_without_a_step_warn():
    hashed = HashEmbedding(1)
    for _ in range(MANY_GRADIENTS - 1):
        hashed(torch.tensor([1])).sum().backward()
    with pytest.warns(UserWarning, match="call step"):
        hashed(torch.tensor([1])).sum().backward()


def test_a_row_erased_between_forward_and_step_harms_no_other():
    hashed, _ = pair(SgdOptimizer(learning_rate=1.0))
    before = rows(hashed)
    out = hashed(torch.tensor([3, 4]))
    hashed.table.erase(torch.tensor([3]))
    fresh = torch.arange(1000, 3000)
    hashed.table.assign(fresh, torch.ones(2000, DIM))
    out.sum().backward()
    hashed.step()
    assert torch.equal(hashed(torch.tensor([4])), before[4:5] - 1)
    assert torch.equal(rows(hashed)[5:], before[5:])
    assert hashed.table.lookup(fresh).eq(1).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_gradient_is_named_and_changes_nothing(bad):
    hashed, _ = pair(SgdOptimizer(learning_rate=1.0))
    before = rows(hashed)
    gradient = torch.ones(2, DIM)
    gradient[1, 3] = bad
    hashed(torch.tensor([1, 2])).backward(gradient)
    with pytest.raises(ValueError, match=r"table 'embedding'.*row 1, column 3"):
        hashed.step(global_step=9, time=9)
    assert torch.equal(rows(hashed), before)
    assert (hashed.global_step, hashed.time) == (0, 0)
    hashed.zero_grad()
    hashed.step()


def test_results_do_not_depend_on_the_number_of_threads():
    results = []
    threads = torch.get_num_threads()
    for number in (1, 2, 3):
        torch.set_num_threads(number)
        try:
            bag = HashEmbeddingBag(8, mode="mean")
            generator = torch.Generator().manual_seed(1)
            for _ in range(5):
                ids = torch.randint(3000, (2000, 5), generator=generator)
                bag(ids).backward(torch.randn(2000, 8, generator=generator))
                bag.step()
            results.append(bag.table.lookup(torch.arange(3000)))
        finally:
            torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_row_optimizer_steps_all_modules_and_obeys_schedulers():
    modules = [
        HashEmbedding(1, optimizer=SgdOptimizer(learning_rate=rate), initializer=ZerosInitializer())
        for rate in (1.0, 0.5)
    ]
    optimizer = RowOptimizer(modules)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        sum(module(torch.tensor([1])).sum() for module in modules).backward()
        optimizer.step()
        schedule.step()
    found = [module(torch.tensor([1])).item() for module in modules]
    assert found == pytest.approx([-1.1, -0.55])
    saved = optimizer.state_dict()
    other = RowOptimizer(modules)
    other.load_state_dict(saved)
    assert other.param_groups[1]["lr"] == pytest.approx(0.005)


def test_row_optimizer_leaves_a_changing_rate_to_the_table():
    warming = HashEmbedding(
        1, optimizer=SgdOptimizer(learning_rate=1.0, warmup_steps=4), initializer=ZerosInitializer()
    )
    optimizer = RowOptimizer([warming])
    assert optimizer.param_groups[0]["lr"] is None
    for _ in range(3):
        warming(torch.tensor([1])).sum().backward()
        optimizer.step()
    assert warming(torch.tensor([1])).item() == pytest.approx(-(0 + 0.25 + 0.5))


def test_row_optimizer_refuses_what_it_cannot_step():
    with pytest.raises(ValueError, match="at least one"):
        RowOptimizer([])
    with pytest.raises(TypeError, match="HashEmbedding"):
        RowOptimizer([nn.Linear(1, 1)])
    with pytest.raises(ValueError, match="fused"):
        RowOptimizer([HashEmbedding(1, fused=True)])


def test_evict_removes_rows_by_event_time():
    day = 24 * 3600
    hashed = HashEmbedding(1, optimizer=AdamOptimizer(learning_rate=0.1), expire_days=2)
    for number in range(4):
        hashed(torch.tensor([number])).sum().backward()
        hashed.step(time=(10 + number) * day)
    assert hashed.evict(now=13 * day) == 2
    assert hashed.table.contains(torch.arange(4)).tolist() == [False, False, True, True]


def test_evict_refuses_to_guess_when_rows_were_seen():
    hashed = HashEmbedding(1)
    hashed(torch.tensor([1])).sum().backward()
    hashed.step()
    with pytest.raises(ValueError, match="step\\(time"):
        hashed.evict(now=1_700_000_000)
    assert hashed.num_rows == 1


def test_bad_ids_and_places_are_named():
    hashed = HashEmbedding(2, name="user")
    with pytest.raises(TypeError, match="int64, got torch.int32"):
        hashed(torch.tensor([1], dtype=torch.int32))
    with pytest.raises(TypeError, match="CPU, got meta"):
        hashed(torch.empty(1, dtype=torch.int64, device="meta"))
    with pytest.raises(RuntimeError, match="'user'.*main memory"):
        nn.Sequential(hashed).to("meta")
    with pytest.raises(RuntimeError, match="'user'.*torch.jit"):
        torch.jit.trace(hashed, torch.tensor([1]))


def test_half_and_double_leave_the_rows_float32():
    model = nn.Sequential(HashEmbedding(2), nn.Linear(2, 1))
    assert model.half()[0](torch.tensor([1])).dtype == torch.float32
    assert model.double()[0](torch.tensor([1])).dtype == torch.float32


def test_a_compiled_model_trains_the_rows():
    hashed = HashEmbedding(2)
    plain = nn.Sequential(hashed, nn.Linear(2, 1))
    model = torch.compile(plain, backend="eager")
    for _ in range(2):
        model(torch.tensor([5, 6, 5])).sum().backward()
        hashed.step()
    assert hashed.num_rows == 2
    assert torch.equal(model(torch.tensor([5])), plain(torch.tensor([5])))


def test_repr_says_what_it_is():
    assert repr(HashEmbedding(4, name="uid")) == "HashEmbedding(4, name='uid', optimizer=adagrad, num_rows=0)"
