"""A save is one moment of a table that others go on changing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from monolith._core import native
from monolith.embedding import AdagradOptimizer, Segment, SgdOptimizer, Table, TableConfig


@pytest.fixture(autouse=True)
def _threads_afterwards() -> Iterator[None]:
    native.set_num_threads(2)
    yield
    native.set_num_threads(0)


def make() -> Table:
    return Table(TableConfig(name="t", segments=(Segment(4, SgdOptimizer(learning_rate=1.0)),)))


@contextmanager
def training(table: Table, ids: torch.Tensor, erased: torch.Tensor) -> Iterator[None]:
    """Keep adding one to all `ids`, and erase and re-insert `erased`, one call each, until the block ends."""
    stop = threading.Event()
    started = threading.Barrier(2)

    def train() -> None:
        ones = torch.ones(len(ids), 4)
        for round_ in range(1_000_000):
            table.assign_add(ids, ones, time=round_)
            table.erase(erased)
            table.assign(erased, torch.full((len(erased), 4), float(round_)))
            if round_ == 0:
                started.wait()
            if stop.is_set():
                return

    thread = threading.Thread(target=train)
    thread.start()
    started.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_save_while_training_is_one_moment(tmp_path: Path) -> None:
    table = make()
    trained, erased = torch.arange(20_000), torch.arange(20_000, 25_000)
    counts = []
    with training(table, trained, erased):
        for save in range(6):
            table.save(tmp_path / str(save), num_shards=3)
            restored = make()
            restored.restore(tmp_path / str(save))
            rows = restored.lookup(trained)
            assert rows.eq(rows[0, 0]).all()
            there = restored.contains(erased)
            assert there.all() or not there.any()
            values = restored.lookup(erased)
            assert values.eq(values[0, 0]).all()
            assert len(restored) == 20_000 + int(there.sum())
            counts.append(rows[0, 0].item())
    assert counts == sorted(counts)
    assert table.lookup(trained).eq(table.lookup(trained[:1])).all()


def snapshot(table: Table) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for sub_table in range(native.NUM_SUB_TABLES):
        ids, _, rows = table.native.read_snapshot(sub_table)
        weights = np.ascontiguousarray(rows[:, : table.native.weight_bytes]).view(np.float32)
        found.update(zip(ids.tolist(), weights.tolist(), strict=True))
    return found


def test_what_happens_during_a_snapshot_is_not_in_it() -> None:
    table = make()
    ids = torch.arange(3000)
    table.assign(ids, torch.ones(3000, 4))
    table.native.begin_snapshot()
    table.assign_add(ids[:1000], torch.ones(1000, 4))
    table.erase(ids[500:2000])
    table.assign(torch.arange(5000, 7000), torch.ones(2000, 4))  # takes over the erased rows
    table.assign(ids[1500:1600], torch.full((100, 4), 9.0))  # erased, and back
    table.reinitialize(ids[2500:2600], time=1)
    table.erase(torch.arange(6000, 6100))  # came and went
    assert snapshot(table) == {id_: [1.0] * 4 for id_ in range(3000)}
    table.native.end_snapshot()
    assert len(table) == 3000 - 1500 + 2000 + 100 - 100
    assert table.lookup(torch.tensor([0, 700, 1500, 2999]))[:, 0].tolist() == [2, 0, 9, 1]


def test_what_happens_between_two_parts_of_a_snapshot_is_not_in_it() -> None:
    table = make()
    ids = torch.arange(3000)
    table.assign(ids, torch.ones(3000, 4))
    table.native.begin_snapshot()
    found: dict[int, list[float]] = {}
    for sub_table in range(native.NUM_SUB_TABLES):
        part, _, rows = table.native.read_snapshot(sub_table)
        found.update(zip(part.tolist(), rows.view(np.float32).tolist(), strict=True))
        table.assign_add(ids[sub_table :: native.NUM_SUB_TABLES], torch.ones(len(ids[sub_table::256]), 4))
        table.erase(ids[sub_table : sub_table + 5])
        table.assign(torch.tensor([10_000 + sub_table]), torch.ones(1, 4))
    table.native.end_snapshot()
    assert found == {id_: [1.0] * 4 for id_ in range(3000)}


def test_one_snapshot_at_a_time(tmp_path: Path) -> None:
    table = make()
    table.assign(torch.tensor([1]), torch.ones(1, 4))
    table.save(tmp_path / "before")
    table.native.begin_snapshot()
    with pytest.raises(RuntimeError, match="'t' is being taken already"):
        table.save(tmp_path / "t")
    with pytest.raises(RuntimeError, match="'t' cannot be cleared during a snapshot"):
        table.restore(tmp_path / "before")
    assert table.lookup(torch.tensor([1])).tolist() == [[1] * 4]
    table.native.end_snapshot()
    table.save(tmp_path / "t")
    assert [path.name for path in tmp_path.glob("t-*")] == ["t-00000-of-00001"]
    with pytest.raises(RuntimeError, match="not part of a running snapshot"):
        table.native.read_snapshot(0)


def test_newest_time_and_step_are_those_of_the_moment_of_the_snapshot() -> None:
    table = make()
    table.assign(torch.tensor([1]), torch.ones(1, 4), time=100)
    table.apply_gradients(torch.tensor([1]), torch.ones(1, 4), time=100, global_step=7)
    moment = table.native.begin_snapshot()
    table.apply_gradients(torch.tensor([2]), torch.ones(1, 4), time=100_000_000, global_step=8)
    table.native.end_snapshot()
    assert (moment.max_time, moment.max_step) == (100, 7)


def test_optimizer_state_and_times_are_part_of_the_moment(tmp_path: Path) -> None:
    config = TableConfig(name="t", segments=(Segment(2, AdagradOptimizer(learning_rate=0.1)),))
    table = Table(config)
    ids = torch.arange(500)
    table.apply_gradients(ids, torch.ones(500, 2), time=7)
    entries = table.lookup_entry(ids)
    table.save(tmp_path / "t")
    table.apply_gradients(ids, torch.ones(500, 2), time=9)
    assert table.lookup_entry(ids) != entries
    table.restore(tmp_path / "t")
    assert table.lookup_entry(ids) == entries
    assert table.native.max_time == 7
