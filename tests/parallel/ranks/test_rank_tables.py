"""Tables spread over ranks: together they do what one process does with all their batches end to end."""

from typing import Any

import numpy as np
import pytest
import torch

from monolith.embedding import MultiTable, Optimizer, RandomUniformInitializer, Segment, SgdOptimizer, TableConfig
from monolith.embedding.admission import SlotOccurrenceThresholdConfig, create_hash_filter
from monolith.embedding.hash_shards import shards_of_ids
from monolith.errors import NotFiniteError
from monolith.parallel.ranks import Exchange, RankTables
from tests.embedding.test_table_optimizers import OPTIMIZERS
from tests.parallel.ranks.running_ranks import run_ranks

NUM_STEPS = 3
BATCH = 200
NUM_IDS = 150
FIRST_IDS = torch.tensor([0, 1 << 48])
"""Of each table. One filter counts for both, and a process may step both at once: with ids in common, chance decides
which table gets a row first."""
THRESHOLDS = SlotOccurrenceThresholdConfig(default_occurrence_threshold=6)  # about the mean


def configs(optimizer: Optimizer) -> dict[str, TableConfig]:
    first = RandomUniformInitializer(-0.5, 0.5)
    dims = {"item": (1,), "user": (1,)} if optimizer.kind == "batch_softmax" else {"item": (5,), "user": (3, 8)}
    return {
        name: TableConfig(name=name, segments=tuple(Segment(dim, optimizer, first) for dim in widths), seed=4)
        for name, widths in dims.items()
    }


def batches(dims: list[int], step: int, rank: int) -> tuple[torch.Tensor, list[int], torch.Tensor]:
    """Ids, sizes and gradients; dense ids, repeated within and across ranks, and some ranks without any of a table."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    sizes = [0 if (step + rank) % 3 == 0 else BATCH, BATCH + rank]
    ids = torch.randint(0, NUM_IDS, (sum(sizes),), generator=random)
    ids += FIRST_IDS.repeat_interleave(torch.tensor(sizes))
    floats = sum(size * dim for size, dim in zip(sizes, dims, strict=True))
    return ids, sizes, torch.randn(floats, generator=random)


def end_to_end(dims: list[int], step: int, num_ranks: int) -> tuple[torch.Tensor, list[int], torch.Tensor]:
    """The batches of all ranks as one."""
    parts = [batches(dims, step, rank) for rank in range(num_ranks)]
    ids, gradients = [], []
    for table in range(len(dims)):
        for one, sizes, values in parts:
            ids.append(one.split(sizes)[table])
            gradients.append(values.split([size * dim for size, dim in zip(sizes, dims, strict=True)])[table])
    return (
        torch.cat(ids),
        [sum(sizes[table] for _, sizes, _ in parts) for table in range(len(dims))],
        torch.cat(gradients),
    )


def train_one_rank(optimizers: list[Optimizer], counts: bool) -> list[dict[str, np.ndarray]]:
    """Train as a rank, for every optimizer, and return the rows of all ids as it looks them up."""
    found = []
    for optimizer in optimizers:
        exchange = Exchange()
        shard = (exchange.rank, exchange.num_ranks)
        admission = create_hash_filter(1000, 7, THRESHOLDS, shard=shard) if counts else None
        tables = RankTables(MultiTable(configs(optimizer), admission=admission), exchange)
        for step in range(NUM_STEPS):
            ids, sizes, gradients = batches(tables.dims, step, exchange.rank)
            plan = tables.plan(ids, sizes)
            assert plan.lookup().shape == gradients.shape
            plan.apply_gradients(gradients, global_step=step, time=step)
        every = [first + torch.arange(NUM_IDS) for first in FIRST_IDS]
        rows = tables.plan(torch.cat(every), [NUM_IDS, NUM_IDS])
        found.append({name: part.numpy() for name, part in zip(tables.names, rows.split(rows.lookup()), strict=True)})
        for ids, table in zip(every, tables.own.tables.values(), strict=True):
            own = shards_of_ids(ids, exchange.num_ranks) == exchange.rank
            assert not table.contains(ids[~own]).any()
    return found


def train_alone(optimizer: Optimizer, num_ranks: int, counts: bool) -> dict[str, torch.Tensor]:
    admission = create_hash_filter(1000, 7, THRESHOLDS) if counts else None
    tables = MultiTable(configs(optimizer), admission=admission)
    dims = [table.dim for table in tables.tables.values()]
    for step in range(NUM_STEPS):
        ids, sizes, gradients = end_to_end(dims, step, num_ranks)
        tables.plan(ids, sizes).apply_gradients(gradients / num_ranks, global_step=step, time=step)
    return tables.lookup(
        {name: first + torch.arange(NUM_IDS) for name, first in zip(tables.names, FIRST_IDS, strict=True)}
    )


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_every_optimizer_gives_the_rows_of_one_process(num_ranks, tmp_path):
    ranks = run_ranks(num_ranks, tmp_path, train_one_rank, OPTIMIZERS, False)
    for number, optimizer in enumerate(OPTIMIZERS):
        alone = train_alone(optimizer, num_ranks, counts=False)
        for name, rows in alone.items():
            assert rows.abs().sum() > 0
            for rank in ranks:
                np.testing.assert_allclose(rank[number][name], rows, rtol=1e-5, atol=1e-6, err_msg=str(optimizer))


def test_a_filter_counts_every_occurrence(tmp_path):
    sgd = SgdOptimizer(learning_rate=0.5)
    ranks = run_ranks(2, tmp_path, train_one_rank, [sgd], True)
    for name, rows in train_alone(sgd, 2, counts=True).items():
        assert 10 < (rows == 0).all(1).sum() < NUM_IDS - 10
        np.testing.assert_allclose(ranks[0][0][name], rows, rtol=1e-6)


def ruin_one_rank() -> list[Any]:
    """Give one rank a gradient that is NaN; return the errors and the rows afterwards."""
    exchange = Exchange()
    tables = RankTables(MultiTable(configs(SgdOptimizer(learning_rate=1.0))), exchange)
    ids, sizes, gradients = batches(tables.dims, 1, exchange.rank)
    plan = tables.plan(ids, sizes)
    plan.apply_gradients(gradients)
    before = plan.lookup()
    if exchange.rank == 1:
        gradients[3] = float("nan")
    try:
        plan.apply_gradients(gradients)
    except NotFiniteError as error:
        return [str(error), torch.equal(plan.lookup(), before)]
    return ["no error", False]


def test_a_gradient_that_is_not_finite_is_an_error_on_every_rank(tmp_path):
    for words, is_same in run_ranks(3, tmp_path, ruin_one_rank):
        assert "of rank 1 are not finite" in words
        assert is_same


def swap_a_large_batch() -> list[Any]:
    """One rank has 300,000 ids, the other five; return how far both are from what they should find."""
    exchange = Exchange()
    tables = RankTables(MultiTable(configs(SgdOptimizer(learning_rate=1.0))), exchange, average=False)
    count = 300_000 if exchange.rank else 5
    sizes = [count if number == 0 else 0 for number in range(len(tables.dims))]
    plan = tables.plan(torch.arange(count), sizes)
    plan.apply_gradients(torch.ones(count * tables.dims[0]))  # makes the rows
    before = plan.lookup()
    plan.apply_gradients(torch.ones(count * tables.dims[0]))
    change = (before - plan.lookup()).view(count, -1)
    # Ids of both ranks get the gradients of both.
    return [float((change[:5] - 2).abs().max()), float((change[5:] - 1).abs().max()) if count > 5 else 0.0]


def test_there_is_no_buffer_that_a_batch_could_be_too_large_for(tmp_path):
    for worst in run_ranks(2, tmp_path, swap_a_large_batch):
        assert max(worst) < 1e-5
