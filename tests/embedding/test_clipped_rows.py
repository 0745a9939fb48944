"""Clipping: a row's summed gradient is scaled to a length, if it is longer, and a huge one ruins nothing."""

import pytest
import torch
from torch import Tensor

from monolith import HashEmbedding
from monolith._core import native
from monolith.embedding import (
    AdagradOptimizer,
    AdamOptimizer,
    ClippedOptimizer,
    Optimizer,
    Segment,
    SgdOptimizer,
    StochasticRoundingFloat16OptimizerWrapper,
    Table,
    TableConfig,
)

LEVELS = ("scalar", "avx2", "avx512")


def table_of(*optimizers: Optimizer, dim: int = 3) -> Table:
    return Table(TableConfig(name="movie", segments=tuple(Segment(dim, optimizer) for optimizer in optimizers)))


def stepped(optimizer: Optimizer, *gradients: list[float]) -> Tensor:
    table = table_of(optimizer, dim=len(gradients[0]))
    table.apply_gradients(torch.ones(len(gradients), dtype=torch.int64), torch.tensor(gradients))
    return table.lookup(torch.tensor([1]))[0]


def test_only_a_longer_gradient_is_scaled_and_it_keeps_its_direction() -> None:
    sgd = SgdOptimizer(learning_rate=1.0)
    assert stepped(ClippedOptimizer(sgd, max_norm=5.0), [3.0, 4.0]).tolist() == [-3.0, -4.0]
    assert stepped(ClippedOptimizer(sgd, max_norm=1.0), [3.0, 4.0]).tolist() == pytest.approx([-0.6, -0.8])
    # The sum of an id's gradients is what has a length, not each of them.
    assert stepped(ClippedOptimizer(sgd, max_norm=5.0), [30.0, 4.0], [-27.0, 0.0]).tolist() == [-3.0, -4.0]


@pytest.mark.parametrize("optimizer", [AdagradOptimizer(learning_rate=0.1), AdamOptimizer(learning_rate=0.1)])
def test_a_huge_gradient_does_not_stop_a_row_for_ever(optimizer: Optimizer) -> None:
    table = table_of(ClippedOptimizer(optimizer, max_norm=10.0))
    ids = torch.tensor([7])
    table.apply_gradients(ids, torch.tensor([[1e20, -3e38, 0.0]]))
    before = table.lookup(ids)
    assert before.isfinite().all()
    table.apply_gradients(ids, torch.ones(1, 3))
    assert (table.lookup(ids) - before).abs().min() > 1e-3


def test_each_segment_is_clipped_by_its_own_length() -> None:
    sgd = SgdOptimizer(learning_rate=1.0)
    table = table_of(ClippedOptimizer(sgd, max_norm=1.0), sgd, ClippedOptimizer(sgd, max_norm=2.0), dim=1)
    table.apply_gradients(torch.tensor([1]), torch.tensor([[5.0, 5.0, 5.0]]))
    assert table.lookup(torch.tensor([1])).tolist() == [[-1.0, -5.0, -2.0]]


def test_results_do_not_depend_on_threads_or_the_instruction_set() -> None:
    gradients = 100 * torch.randn(30_000, 19, generator=torch.Generator().manual_seed(1))
    ids = torch.randint(0, 9_000, (30_000,), generator=torch.Generator().manual_seed(2))
    found = []
    before = native.simd_level()
    try:
        for level in LEVELS[: LEVELS.index(native.best_simd_level()) + 1]:
            for threads in (1, 3):
                native.set_simd_level(level)
                native.set_num_threads(threads)
                table = table_of(ClippedOptimizer(AdagradOptimizer(learning_rate=0.1), max_norm=50.0), dim=19)
                table.apply_gradients(ids, gradients)
                found.append(table.lookup_entry(torch.arange(9_000)))
    finally:
        native.set_simd_level(before)
        native.set_num_threads(0)
    assert all(one == found[0] for one in found)


def test_a_module_clips() -> None:
    optimizer = ClippedOptimizer(SgdOptimizer(learning_rate=1.0), max_norm=2.0)
    embedding = HashEmbedding(1, optimizer=optimizer)
    start = embedding(torch.tensor([1])).item()
    for _ in range(3):
        (100 * embedding(torch.tensor([1]))).sum().backward()
    embedding.step()
    assert embedding(torch.tensor([1])).item() < 0
    assert embedding.table.lookup(torch.tensor([1])).item() - start == pytest.approx(-2.0, abs=0.06)


def test_the_message_has_the_length_and_gives_it_back() -> None:
    clipped = ClippedOptimizer(AdagradOptimizer(learning_rate=0.1), max_norm=0.1)
    assert Optimizer.from_proto(clipped.as_proto()) == clipped
    both = StochasticRoundingFloat16OptimizerWrapper(clipped)
    assert Optimizer.from_proto(both.as_proto()) == both
    assert both.max_gradient_norm == 0.1 and both.stochastic_rounding_float16
    assert not AdagradOptimizer().as_proto().HasField("max_gradient_norm")


@pytest.mark.parametrize("max_norm", [0.0, -1.0, float("nan"), float("inf")])
def test_a_length_that_makes_no_sense(max_norm: float) -> None:
    with pytest.raises(ValueError, match="max_norm must be more than 0 and finite, got"):
        ClippedOptimizer(SgdOptimizer(), max_norm=max_norm)


def test_clipping_twice_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="clips already"):
        ClippedOptimizer(ClippedOptimizer(SgdOptimizer(), max_norm=1.0), max_norm=2.0)
