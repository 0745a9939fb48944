"""The known figures of single tables."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from monolith.embedding import (
    AdagradOptimizer,
    BatchSoftmaxInitializer,
    BatchSoftmaxOptimizer,
    ConstantsInitializer,
    LearningRate,
    Optimizer,
    PolynomialDecay,
    Segment,
    SgdOptimizer,
    Table,
    TableConfig,
)
from monolith.embedding.admission import SlotOccurrenceThresholdConfig, create_hash_filter
from monolith.embedding.fused import fused_apply_gradient, fused_lookup
from monolith.embedding.table_iteration import extract_slot_from_entry, iterate_table_and_apply
from monolith.protos.embedding_hash_table_pb2 import EntryDump

DAY = 86400
MAX_TIME = 10_000_000


def make(
    dim: int = 1, rate: LearningRate = 1.0, threshold: int = 0, optimizer: Optimizer | None = None, **config: object
) -> Table:
    admission = None
    if threshold:
        thresholds = SlotOccurrenceThresholdConfig(default_occurrence_threshold=threshold)
        admission = create_hash_filter(300, 7, thresholds)
    segments = (Segment(dim, optimizer or SgdOptimizer()),)
    settings = {"name": "table", "segments": segments, "learning_rates": (rate,), **config}
    return Table(TableConfig(**settings), admission=admission)  # type: ignore[arg-type]


def ids(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 1)


def read(table: Table, *values: int) -> list[list[float]]:
    rows: list[list[float]] = table.lookup(ids(*values)).tolist()
    return rows


class Near:
    """Compares lists of rows with a tolerance of 1e-6."""

    def __init__(self, *values: float) -> None:
        self.values = [[float(value)] for value in values]

    def __eq__(self, other: object) -> bool:
        return torch.allclose(torch.tensor(other), torch.tensor(self.values), rtol=0, atol=1e-6)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"near {self.values}"


def test_assign_add_then_assign() -> None:
    table = make()
    table.assign_add(ids(0, 1), column(1, 1))
    assert read(table, 0, 1, 2) == [[1], [1], [0]]
    assert len(table) == 2
    table.assign(ids(1), column(5))
    assert read(table, 0, 1, 2) == [[1], [5], [0]]


def test_lookup_entry() -> None:
    table = make()
    table.assign(ids(0, 1, 2), column(0.1, 0.2, 0.3))
    *known, unknown = table.lookup_entry(ids(0, 1, 2, 3))
    assert [list(EntryDump.FromString(entry).num) for entry in known] == [
        pytest.approx([value]) for value in (0.1, 0.2, 0.3)
    ]
    assert unknown == b""


@pytest.mark.parametrize("rate", [0.1, lambda _: 0.1], ids=["number", "callable"])
def test_gradients(rate: LearningRate) -> None:
    table = make(rate=rate)
    table.apply_gradients(ids(0, 0, 1), column(-1, -1, -1))
    assert read(table, 0, 1) == Near(0.2, 0.1)


def test_gradients_with_learning_rate_decay() -> None:
    table = make(rate=PolynomialDecay(0.01, 10, 0.11))
    table.apply_gradients(ids(0, 0, 1), column(-1, -1, -1), global_step=1)
    assert read(table, 0, 1) == Near(0.04, 0.02)


def test_gradients_of_repeated_ids_are_summed() -> None:
    table = make(dim=10, rate=0.1)
    table.apply_gradients(ids(0, 1, 0, 1, 0), -torch.ones(5, 10))
    assert torch.allclose(table.lookup(ids(0, 1)), torch.tensor([[0.3], [0.2]]).expand(2, 10), atol=1e-6)


def test_gradients_of_other_ids_than_were_looked_up() -> None:
    table = make(rate=0.1)
    table.lookup(ids(0, 0, 1))
    table.apply_gradients(ids(1, 0, 1), column(-1, -1, -1))
    assert read(table, 0, 1) == Near(0.1, 0.2)


def test_hash_filter_of_threshold_3() -> None:
    table = make(rate=0.1, threshold=3)
    seen = []
    for _ in range(4):
        table.apply_gradients(ids(0, 0, 1), column(-1, -1, -1), sum_repeated=False)
        seen.append(read(table, 0, 1))
    assert seen == [Near(0, 0), Near(0.1, 0), Near(0.3, 0), Near(0.5, 0.1)]


def test_the_filter_counts_a_summed_gradient_by_its_occurrences() -> None:
    table = make(rate=0.1, threshold=3)
    result = table.apply_gradients(ids(0, 0, 0, 1), column(-1, -1, -1, -1))
    assert (result.filtered, result.inserted) == (2, 0)
    assert table.apply_gradients(ids(0, 1), column(-1, -1)).inserted == 1
    assert read(table, 0, 1) == Near(0.1, 0)


def test_save_and_restore(tmp_path: Path) -> None:
    table = make()
    table.assign(ids(-1, 1), column(1, 2))
    table.save(tmp_path / "t")
    table.assign_add(ids(-1, 1, 7), column(5, 5, 5))
    assert table.restore(tmp_path / "t") == 2
    assert read(table, -1, 1, 7) == [[1], [2], [0]]
    other = make()
    other.restore(tmp_path / "t")
    assert read(other, -1, 1) == [[1], [2]]


def test_another_table_restores_the_file(tmp_path: Path) -> None:
    one, two = make(name="one"), make(name="two")
    one.assign(ids(0), column(1))
    one.save(tmp_path / "one")
    two.restore(tmp_path / "one")
    assert read(two, 0) == [[1]]


@pytest.mark.parametrize(("change", "sign"), [("assign_add", 1), ("apply_gradients", -1)])
def test_expiry_at_save(tmp_path: Path, change: str, sign: int) -> None:
    table = make(expire_days=1)
    for id_, time in enumerate([MAX_TIME - DAY - 1, MAX_TIME - DAY + 1, MAX_TIME]):
        getattr(table, change)(ids(id_), column(id_ + 1), time=time)
    table.save(tmp_path / "t")
    table.restore(tmp_path / "t")
    assert read(table, 0, 1, 2) == [[0], [2 * sign], [3 * sign]]


def test_expiry_is_reached_exactly_after_its_days(tmp_path: Path) -> None:
    table = make(expire_days=1)
    table.assign(ids(0), column(1), time=MAX_TIME - DAY)
    table.assign(ids(1), column(2), time=MAX_TIME)
    assert table.save(tmp_path / "t", drop_expired=False)
    assert table.evict() == 1
    assert read(table, 0, 1) == [[0], [2]]
    table.restore(tmp_path / "t")
    assert read(table, 0, 1) == [[1], [2]]


@pytest.mark.parametrize(("days", "expected"), [(0, [[0], [0]]), (3600, [[1], [2]])])
def test_expiry_of_0_and_of_3600_days(tmp_path: Path, days: int, expected: list[list[float]]) -> None:
    table = make(expire_days=days)
    table.assign_add(ids(0, 1), column(1, 2), time=MAX_TIME)
    table.save(tmp_path / "t")
    table.restore(tmp_path / "t")
    assert read(table, 0, 1) == expected


def test_expiry_by_slot(tmp_path: Path) -> None:
    table = make(slot_expire_days={1: 0, 2: 1})
    table.assign_add(ids(1 << 48, 2 << 48), column(1, 2), time=100)
    table.save(tmp_path / "t")
    table.restore(tmp_path / "t")
    assert read(table, 1 << 48, 2 << 48) == [[0], [2]]


@pytest.mark.parametrize("time", [{}, {"time": 0}, {"time": 500}], ids=["none", "zero", "equal"])
def test_rows_without_or_of_equal_time_survive(tmp_path: Path, time: dict[str, int]) -> None:
    table = make(expire_days=1)
    table.apply_gradients(ids(0, 1), column(1, 2), **time)  # type: ignore[arg-type]
    table.save(tmp_path / "t")
    table.restore(tmp_path / "t")
    assert read(table, 0, 1) == [[-1], [-2]]


def test_filter_and_table_restore_together(tmp_path: Path) -> None:
    table = make(threshold=2)
    assert table.admission is not None

    def add() -> list[list[float]]:
        table.assign_add(ids(0), column(1))
        return read(table, 0)

    assert add() == [[0]]
    table.save(tmp_path / "table")
    table.admission.save(tmp_path / "filter")
    assert [add(), add()] == [[[0]], [[1]]]
    table.restore(tmp_path / "table")
    table.admission.restore(tmp_path / "filter")
    assert [add(), add()] == [[[0]], [[1]]]


def test_a_name_that_is_the_start_of_another(tmp_path: Path) -> None:
    one, ten = make(), make()
    one.assign(ids(0), column(1))
    ten.assign(ids(0), column(10))
    one.save(tmp_path / "table1")
    ten.save(tmp_path / "table10")
    for table, name, value in ((one, "table1", 1), (ten, "table10", 10)):
        table.restore(tmp_path / name)
        assert read(table, 0) == [[value]]


def test_extract_slot() -> None:
    entries = [EntryDump(id=1 << 48).SerializeToString(), EntryDump(id=(7 << 48) | 5).SerializeToString()]
    assert extract_slot_from_entry(entries).tolist() == [1, 7]
    assert extract_slot_from_entry([EntryDump(id=3 << 54).SerializeToString()], fid_v2=False).tolist() == [3]


def test_iteration_visits_all_entries() -> None:
    table = make()
    table.assign(torch.arange(100), torch.arange(100).float().view(-1, 1))
    seen: list[EntryDump] = []

    def note(entries: list[bytes]) -> None:
        assert 1 <= len(entries) <= 2
        seen.extend(map(EntryDump.FromString, entries))

    iterate_table_and_apply(table, note, limit=2)
    assert sorted((dump.id, dump.num[0]) for dump in seen) == [(i, i) for i in range(100)]


def test_iteration_stops_when_it_is_asked_to() -> None:
    table = make()
    table.assign(torch.arange(100), torch.ones(100, 1))
    sizes: list[int] = []

    def note(entries: list[bytes]) -> bool:
        sizes.append(len(entries))
        return len(sizes) < 3

    iterate_table_and_apply(table, note, limit=1)
    assert sizes == [1, 1, 1]
    iterate_table_and_apply(table, lambda entries: sizes.append(0))  # None is no request
    assert len(sizes) > 4


def test_fused_lookup() -> None:
    tables = [make(dim) for dim in (1, 1, 2)]
    for x, table in enumerate(tables):
        table.assign(ids(3 * x, 3 * x + 1), torch.full((2, table.dim), float(x % 2 == 0)))
    rows = fused_lookup(tables, ids(0, 4, 6, 1, 3, 7), [1] * 6, num_of_shards=2)
    assert rows.embeddings.tolist() == [1, 0, 1, 1, 1, 0, 1, 1]
    assert rows.recv_splits.tolist() == [4, 4]
    assert rows.id_offsets.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert rows.emb_offsets.tolist() == [0, 1, 2, 4, 5, 6, 8]
    assert rows.indices.tolist() == [0, 4, 6, 1, 3, 7]


def test_fused_lookup_documented_example() -> None:
    tables = [make(1), make(2)]
    tables[0].assign(ids(7, 8), column(0.5, 0.6))
    tables[1].assign(ids(5, 6), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    rows = fused_lookup(tables, ids(7, 5, 8, 6), [1, 1, 1, 1], num_of_shards=2)
    assert rows.embeddings.tolist() == pytest.approx([0.5, 1, 2, 0.6, 3, 4])
    assert rows.recv_splits.tolist() == [3, 3]


def test_fused_optimize() -> None:
    tables = [make(1, 0.1), make(2, 0.1)]
    tables[0].assign(ids(0, 1), column(1, 1))
    tables[1].assign(ids(3, 4), torch.zeros(2, 2))
    batch, sizes = ids(0, 4, 1, 3), [1, 1, 1, 1]
    fused_apply_gradient(tables, batch, sizes, torch.tensor([-1.0, -2, -2, -1, -2, -2]), num_of_shards=2)
    rows = fused_lookup(tables, batch, sizes, num_of_shards=2)
    assert rows.embeddings.tolist() == pytest.approx([1.1, 0.2, 0.2, 1.1, 0.2, 0.2])
    assert rows.recv_splits.tolist() == [3, 3]
    assert rows.id_offsets.tolist() == [0, 1, 2, 3, 4]
    assert rows.emb_offsets.tolist() == [0, 1, 3, 4, 6]


def test_fused_calls_refuse_sizes_that_do_not_fit() -> None:
    tables = [make(1), make(2)]
    with pytest.raises(ValueError, match="2 x 2, got 3"):
        fused_lookup(tables, ids(1, 2), [1, 1, 0], num_of_shards=2)
    with pytest.raises(ValueError, match="add up to 2 ids"):
        fused_lookup(tables, ids(1, 2), [1, 2], num_of_shards=1)
    with pytest.raises(ValueError, match="3 floats"):
        fused_apply_gradient(tables, ids(1, 2), [1, 1], torch.ones(2), num_of_shards=1)
    with pytest.raises(ValueError, match="place 2 is nan"):
        fused_apply_gradient(tables, ids(1, 2), [1, 1], torch.tensor([1, 1, torch.nan]), num_of_shards=1)
    assert [len(table) for table in tables] == [0, 0]


def test_adagrad_goes_on_after_a_restore(tmp_path: Path) -> None:
    table = make(optimizer=AdagradOptimizer(initial_accumulator_value=0.1))
    table.apply_gradients(ids(0), column(1), time=100)
    assert read(table, 0) == Near(-0.95346254)
    table.save(tmp_path / "t")
    restored = make(optimizer=AdagradOptimizer(initial_accumulator_value=0.1))
    restored.restore(tmp_path / "t")
    assert EntryDump.FromString(restored.lookup_entry(ids(0))[0]).last_update_ts_sec == 100
    assert restored.native.max_time == 100
    restored.apply_gradients(ids(0), column(1))
    assert read(restored, 0) == Near(-1.643528)


def test_batch_softmax_learns_how_rarely_an_id_comes() -> None:
    table = Table(
        TableConfig(
            name="step_intervals",
            segments=(Segment(1, BatchSoftmaxOptimizer(learning_rate=0.1), BatchSoftmaxInitializer(1.0)),),
        )
    )
    for step in range(1, 1001):
        seen = [id_ for id_, every in ((0, 5), (1, 10)) if step % every == 0]
        if seen:
            table.apply_gradients(ids(*seen), torch.zeros(len(seen), 1), global_step=step)
    assert (1 / table.lookup(ids(0, 1))).view(-1).tolist() == pytest.approx([0.2, 0.1], abs=0.01)


def test_segments_have_their_own_learning_rates() -> None:
    segments = (Segment(1, SgdOptimizer()), Segment(2, SgdOptimizer()))
    table = Table(TableConfig(name="t", segments=segments, learning_rates=(1.0, 2.0)))
    table.apply_gradients(ids(0), torch.tensor([[1.0, 2.0, 3.0]]))
    assert table.lookup(ids(0)).tolist() == [[-1, -4, -6]]


def test_segments_have_their_own_initializers() -> None:
    segments = (
        Segment(1, SgdOptimizer(), ConstantsInitializer(3.0)),
        Segment(2, SgdOptimizer(), ConstantsInitializer(4.0)),
    )
    table = Table(TableConfig(name="t", segments=segments))
    table.assign_add(ids(0), torch.zeros(1, 3))
    assert table.lookup(ids(0)).tolist() == [[3, 4, 4]]
