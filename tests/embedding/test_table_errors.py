"""Mistakes: an exception that names the thing, the value and the way out, and a table as it was."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from monolith.embedding import (
    Compressor,
    FixedR8Compressor,
    Fp16Compressor,
    Fp32Compressor,
    LearningRate,
    MultiTable,
    Segment,
    SgdOptimizer,
    Table,
    TableConfig,
)
from monolith.embedding.entry import DelayCompensation


def config(**settings: object) -> TableConfig:
    base: dict[str, object] = {"name": "movie", "segments": (Segment(4, SgdOptimizer(learning_rate=1.0)),)}
    return TableConfig(**(base | settings))  # type: ignore[arg-type]


@pytest.fixture
def table() -> Table:
    table = Table(config())
    table.assign(torch.arange(10), torch.arange(40).view(10, 4).float(), time=3)
    return table


IDS, ROWS = torch.arange(2), torch.ones(2, 4)

MISTAKES: list[tuple[Callable[[Table], object], type[Exception], str]] = [
    (lambda t: t.lookup(IDS, out=torch.empty(2, 4, dtype=torch.float64)), TypeError, "out must be float32.*float64"),
    (lambda t: t.lookup(IDS, out=torch.empty(4, 2).T), TypeError, r"contiguous, got strides \(1, 2\)"),
    (lambda t: t.lookup(IDS, out=torch.empty(8)), TypeError, r"2 dimensions, got shape \(8,\)"),
    (lambda t: t.lookup(IDS, out=torch.empty(3, 4)), ValueError, "'movie': out must be 2 x 4.*got 3 x 4"),
    (lambda t: t.lookup(IDS, out=torch.empty(2, 4, device="meta")), TypeError, "CPU.*meta"),
    (lambda t: t.lookup(IDS.to("meta")), TypeError, r"CPU, got meta; move them with .cpu\(\)"),
    (lambda t: t.lookup(IDS.to(torch.uint8)), TypeError, r"int64, got torch.uint8.*\.long\(\)"),
    (lambda t: t.assign(IDS, ROWS.to("meta")), TypeError, "values must be on the CPU"),
    (lambda t: t.assign(IDS, ROWS.half()), TypeError, r"float16.*\.float\(\)"),
    (lambda t: t.apply_gradients(IDS, ROWS.view(-1)), TypeError, r"gradients must have 2 dimensions.*\(8,\)"),
    (lambda t: t.apply_gradients(IDS, ROWS[:1]), ValueError, "'movie': gradients must be 2 x 4.*got 1 x 4"),
    (lambda t: t.apply_gradients(IDS, ROWS, time=-1), ValueError, "time must be seconds.*got -1"),
    (lambda t: t.assign(IDS, ROWS, time=1_700_000_000_000), ValueError, "got 1700000000000; divide milliseconds"),
    (lambda t: t.reinitialize(IDS, time=-1), ValueError, "got -1"),
    (lambda t: t.evict(now=1 << 32), ValueError, "now must be seconds"),
    (lambda t: t.apply_gradients(IDS, ROWS, global_step=-1), ValueError, "global_step must not be negative, got -1"),
    (
        lambda t: t.apply_gradients(IDS, ROWS * torch.nan),
        ValueError,
        "'movie': the gradient of id 0 in row 0, column 0 is nan",
    ),
    (lambda t: t.plan(IDS).apply_gradients(ROWS * torch.inf), ValueError, "is inf; nothing was changed"),
    (lambda t: t.save("/nowhere", num_shards=0), ValueError, "'movie': num_shards must be 1 to 65536, got 0"),
    (lambda t: t.save("/nowhere", num_shards=65_537), ValueError, "got 65537"),
    (lambda t: t.native.read_rows(256), ValueError, "sub-tables are 0 to 255, got 256"),
    (lambda t: t.native.take_changes(0), ValueError, "'movie' has no consumer 0"),
]


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES, ids=[message for _, _, message in MISTAKES])
def test_a_mistake_changes_nothing(
    table: Table, mistake: Callable[[Table], object], error: type[Exception], message: str
) -> None:
    before = table.lookup_entry(torch.arange(12))
    with pytest.raises(error, match=message):
        mistake(table)
    assert table.lookup_entry(torch.arange(12)) == before
    assert len(table) == 10


@pytest.mark.parametrize("rate", [lambda _: float("nan"), lambda _: float("inf")])
def test_a_learning_rate_that_is_not_finite(rate: LearningRate) -> None:
    table = Table(config(learning_rates=(rate,)))
    with pytest.raises(ValueError, match=r"'movie'.*at step 5"):
        table.apply_gradients(IDS, ROWS, global_step=5)
    assert len(table) == 0


def test_a_serving_table_takes_no_gradients() -> None:
    segments = (Segment(4, SgdOptimizer(learning_rate=1.0), compressor=Fp16Compressor()),)
    table = Table(config(segments=segments, serving=True))
    table.assign(IDS, ROWS * 0.1)
    with pytest.raises(ValueError, match=r"'movie' is a serving table.*serving=False"):
        table.apply_gradients(IDS, ROWS)
    tables = MultiTable({"movie": table.config})
    with pytest.raises(ValueError, match="'movie' is a serving table"):
        tables.apply_gradients({"movie": (IDS, ROWS)})
    assert torch.allclose(table.lookup(IDS), ROWS * 0.1, atol=1e-4)


def test_skip_zero_embedding_erases_what_is_assigned_zero() -> None:
    segments = (Segment(4, SgdOptimizer(learning_rate=1.0)),)
    table = Table(config(segments=segments, serving=True, skip_zero_embedding=True))
    table.assign(torch.arange(6), torch.ones(6, 4))
    with table.track_changes() as tracker:
        table.assign(torch.tensor([1, 2, 9]), torch.tensor([[0.0] * 4, [5.0] * 4, [0.0] * 4]))
        changes = tracker.take()
    assert table.contains(torch.tensor([0, 1, 2, 9])).tolist() == [True, False, True, False]
    assert table.lookup(torch.tensor([2])).tolist() == [[5] * 4]
    assert changes.touched.tolist() == [2]
    assert 1 in changes.erased.tolist()


@pytest.mark.parametrize("compressor", [Fp32Compressor(), Fp16Compressor(), FixedR8Compressor()], ids=str)
def test_skip_zero_embedding_leaves_zero_rows_out_of_a_restore(tmp_path: Path, compressor: Compressor) -> None:
    plain = config(segments=(Segment(4, SgdOptimizer(learning_rate=1.0), compressor=compressor),), serving=True)
    saved = Table(plain)
    ids = torch.arange(300)
    rows = torch.where(ids.view(-1, 1) % 3 == 0, torch.zeros(300, 4), torch.tensor([0.0, 0.0, 0.0, 0.5]))
    saved.assign(ids, rows, time=9)
    saved.save(tmp_path / "t")

    table = Table(replace(plain, skip_zero_embedding=True))
    table.assign(torch.tensor([3, 4, 1000]), torch.ones(3, 4))
    with table.track_changes() as tracker:
        table.restore(tmp_path / "t", clear=False)
        changes = tracker.take()
    assert torch.equal(table.contains(ids), ids % 3 != 0)
    assert torch.equal(table.lookup(ids), saved.lookup(ids))
    assert len(table) == 201  # and the one that was not saved
    assert 3 in changes.erased.tolist()
    assert table.native.max_time == 9

    fresh = Table(replace(plain, skip_zero_embedding=True))
    fresh.restore(tmp_path / "t")
    assert len(fresh) == 200
    assert torch.equal(fresh.lookup(ids), saved.lookup(ids))


def test_a_tensor_with_a_graph_is_taken_as_it_is(table: Table) -> None:
    values = torch.ones(2, 4, requires_grad=True)
    table.assign(IDS, values * 2)
    out = torch.empty(2, 4, requires_grad=True)
    assert table.lookup(IDS, out=out) is out
    assert out.eq(2).all()


def test_ids_of_any_shape_and_stride_give_rows_of_that_shape(table: Table) -> None:
    ids = torch.arange(12).view(3, 4).T
    rows = table.lookup(ids)
    assert rows.shape == (4, 3, 4)
    assert rows[1, 1].tolist() == [20, 21, 22, 23]


def test_settings_that_a_table_cannot_honour_are_said() -> None:
    compensated = Segment(2, DelayCompensation(SgdOptimizer(learning_rate=1.0), 0.1))
    with pytest.raises(ValueError, match="table 't': segment 0 asks for delay compensation"):
        Table(TableConfig(name="t", segments=(compensated,)))
    with pytest.warns(UserWarning, match="table 't': evict_every_hours=2 is for the training loop"):
        Table(TableConfig(name="t", segments=(Segment(2, SgdOptimizer(learning_rate=1.0)),), evict_every_hours=2))
