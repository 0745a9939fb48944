"""What tables take, and what they do at their memory limit."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from monolith._core import native
from monolith.embedding import AdagradOptimizer, MemoryPolicy, Segment, SgdOptimizer, Table, TableConfig
from monolith.errors import TableFullError

LIMIT = 2 << 20


@pytest.fixture(autouse=True)
def _threads_afterwards() -> Iterator[None]:
    yield
    native.set_num_threads(0)


def limited(policy: MemoryPolicy, limit: int = LIMIT) -> Table:
    segments = (Segment(8, SgdOptimizer(learning_rate=1.0)),)
    return Table(TableConfig(name="t", segments=segments, max_memory_bytes=limit, memory_policy=policy))


def fill(table: Table, first: int, last: int, time: int = 0) -> native.ChangeResult:
    return table.assign(torch.arange(first, last), torch.ones(last - first, 8), time=time)


def test_refuse_keeps_what_there_is_and_counts_the_rest() -> None:
    table = limited("refuse")
    result = fill(table, 0, 100_000)
    rows = len(table)
    assert result.inserted == rows
    assert result.refused == 100_000 - rows
    assert 20_000 < rows < 65_536  # 32 bytes of weights and some overhead each
    assert table.memory().bytes_total <= LIMIT
    known = table.contains(torch.arange(100_000)).nonzero().view(-1)
    again = fill(table, 100_000, 150_000)
    assert (again.inserted, again.refused, len(table)) == (0, 50_000, rows)
    assert table.apply_gradients(known, torch.ones(rows, 8)).refused == 0
    assert table.lookup(known).eq(0).all()
    assert len(table) == rows


def test_refused_ids_read_as_zero_and_get_a_row_once_there_is_room() -> None:
    table = limited("refuse")
    fill(table, 0, 100_000)
    refused = (~table.contains(torch.arange(100_000))).nonzero().view(-1)[:50]
    assert table.lookup(refused).eq(0).all()
    assert table.reinitialize(refused, time=1).tolist() == [-1] * 50
    assert table.erase(torch.arange(100_000)) > 0
    assert table.memory().bytes_total <= LIMIT
    assert table.assign(refused, torch.ones(50, 8)).inserted == 50
    assert table.reinitialize(refused, time=1).tolist() == [1] * 50


def test_evict_oldest_lets_go_of_those_not_seen_longest() -> None:
    table = limited("evict_oldest")
    for time in range(1, 21):
        result = fill(table, time * 10_000, (time + 1) * 10_000, time=time)
        assert result.refused == 0
        assert table.memory().bytes_total <= LIMIT
    there = [int(table.contains(torch.arange(t * 10_000, (t + 1) * 10_000)).sum()) for t in range(1, 21)]
    # The last batches fit with ease; all that is left of the others is a tail of the youngest.
    assert there[-2:] == [10_000, 10_000]
    assert there == sorted(there)
    assert there[:12] == [0] * 12
    assert len(table) == sum(there)


def test_evict_oldest_within_one_batch_keeps_the_newcomers() -> None:
    table = limited("evict_oldest")
    fill(table, 0, 30_000, time=1)
    assert fill(table, 50_000, 60_000, time=2).inserted == 10_000
    assert table.contains(torch.arange(50_000, 60_000)).all()
    assert table.lookup(torch.arange(50_000, 60_000)).eq(1).all()


@pytest.mark.parametrize("policy", ["refuse", "evict_oldest"])
def test_who_stays_does_not_depend_on_threads(policy: MemoryPolicy) -> None:
    kept = []
    for threads in (1, 2, 3):
        native.set_num_threads(threads)
        table = limited(policy)
        for time in range(1, 4):
            fill(table, time * 30_000, (time + 1) * 30_000, time=time)
        kept.append(sorted(id_ for ids, _ in table.items() for id_ in ids.tolist()))
    assert kept[0] == kept[1] == kept[2]


def test_evicting_leaves_tombstones() -> None:
    table = limited("evict_oldest")
    fill(table, 0, 30_000, time=1)
    rows = len(table)
    with table.track_changes() as tracker:
        fill(table, 50_000, 60_000, time=2)
        changes = tracker.take()
    assert sorted(changes.touched.tolist()) == list(range(50_000, 60_000))
    assert len(changes.erased) == rows + 10_000 - len(table) > 0
    assert not table.contains(changes.erased).any()


def test_a_limit_too_small_for_any_row() -> None:
    with pytest.raises(ValueError, match=r"'t': max_memory_bytes is 1000, .* need at least \d+"):
        limited("refuse", 1000)


def test_a_restore_that_has_no_room_changes_nothing(tmp_path: Path) -> None:
    large = Table(TableConfig(name="t", segments=(Segment(8, SgdOptimizer(learning_rate=1.0)),)))
    fill(large, 0, 60_000)
    large.save(tmp_path / "large")
    table = limited("refuse")
    fill(table, 0, 10)
    table.assign(torch.arange(10), torch.full((10, 8), 5.0))
    with pytest.raises(TableFullError, match=r"'t' has no room .*large.* 2097152.*nothing was changed"):
        table.restore(tmp_path / "large")
    assert len(table) == 10
    assert table.lookup(torch.arange(10)).eq(5).all()
    evicting = limited("evict_oldest")
    evicting.restore(tmp_path / "large")
    assert 20_000 < len(evicting) < 60_000
    assert evicting.memory().bytes_total <= LIMIT


def test_a_full_table_restores_its_own_files(tmp_path: Path) -> None:
    table = limited("refuse")
    fill(table, 0, 100_000)
    rows = len(table)
    table.save(tmp_path / "full")
    assert table.restore(tmp_path / "full") == rows
    fresh = limited("refuse")
    assert fresh.restore(tmp_path / "full") == rows
    assert len(fresh) == rows


def test_overhead_and_forecast() -> None:
    config = TableConfig(name="t", segments=(Segment(16, AdagradOptimizer(learning_rate=0.1)),))
    table = Table(config)
    assert 128e6 < table.memory().bytes_per_million_ids < 160e6
    table.assign(torch.arange(300_000), torch.ones(300_000, 16))
    memory = table.memory()
    assert memory.bytes_payload == 300_000 * (16 + 16) * 4
    assert (memory.bytes_total - memory.bytes_payload) / 300_000 <= 26
    forecast = memory.bytes_per_million_ids
    table.assign(torch.arange(300_000, 600_000), torch.ones(300_000, 16))
    grown = table.memory().bytes_total - memory.bytes_total
    assert forecast * 0.3 == pytest.approx(grown, rel=0.1)
    table.clear()
    assert table.memory().bytes_total < 200_000


def test_initial_capacity_takes_the_memory_of_its_rows_at_once() -> None:
    segments = (Segment(8, SgdOptimizer(learning_rate=1.0)),)
    table = Table(TableConfig(name="t", segments=segments, initial_capacity=100_000))
    reserved = table.memory().bytes_total
    assert reserved >= 100_000 * 8 * 4
    fill(table, 0, 100_000)
    assert table.memory().bytes_total == reserved
    assert len(table) == 100_000
    assert table.lookup(torch.arange(100_000)).eq(1).all()


def test_initial_capacity_beyond_the_limit_is_refused() -> None:
    segments = (Segment(8, SgdOptimizer(learning_rate=1.0)),)
    with pytest.raises(
        ValueError, match=r"initial_capacity of 1000000 rows does not fit a max_memory_bytes of 2097152"
    ):
        Table(TableConfig(name="t", segments=segments, initial_capacity=1_000_000, max_memory_bytes=LIMIT))
