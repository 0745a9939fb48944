"""Newest time and newest step of a table: kept where its rows are gone, and where a restore fails."""

from pathlib import Path

import pytest
import torch

from monolith.embedding import AdagradOptimizer, Segment, Table, TableConfig
from monolith.errors import CorruptFileError

OLD, NEW = torch.tensor([1, 2, 3]), torch.tensor([10**6])


def make(**settings: int) -> Table:
    segments = (Segment(2, AdagradOptimizer(learning_rate=0.1)),)
    return Table(TableConfig(name="movie", segments=segments, **settings))  # type: ignore[arg-type]


def test_newest_time_and_step_come_back_though_their_row_is_gone(tmp_path: Path) -> None:
    table = make()
    table.apply_gradients(OLD, torch.ones(3, 2), time=50, global_step=7)
    table.apply_gradients(NEW, torch.ones(1, 2), time=10**6, global_step=900)
    table.erase(NEW)
    table.save(tmp_path / "t", drop_expired=False)
    restored = make(expire_days=1)
    restored.restore(tmp_path / "t")
    assert (restored.native.max_time, restored.native.max_step) == (10**6, 900)
    assert restored.evict() == 3, "rows are as old as the newest update says"


@pytest.mark.parametrize(("time", "step"), [(100, 0), (0, 100)])
def test_a_table_without_rows_keeps_its_time_and_step_when_a_restore_fails(
    tmp_path: Path, time: int, step: int
) -> None:
    saved = make()
    saved.apply_gradients(OLD, torch.ones(3, 2))
    path = Path(saved.save(tmp_path / "t")[0])
    path.write_bytes(path.read_bytes()[:-600] + bytes(600))
    table = make()
    table.apply_gradients(NEW, torch.ones(1, 2), time=time, global_step=step)
    table.erase(NEW)
    assert not table.is_unused
    with pytest.raises(CorruptFileError):
        table.restore(tmp_path / "t")
    assert (table.native.max_time, table.native.max_step) == (time, step)
