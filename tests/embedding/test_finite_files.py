"""Rows in files that are not finite: refused with table and id, or dropped with a count; tools may look at them."""

from pathlib import Path

import pytest
import torch

from monolith.embedding import (
    AdagradOptimizer,
    DynamicWdAdagradOptimizer,
    Fp16Compressor,
    MultiTable,
    Optimizer,
    Segment,
    SgdOptimizer,
    Table,
    TableConfig,
)
from monolith.embedding.shard_files import NotFinite
from monolith.errors import NotFiniteError
from tests.checkpoint.not_finite import INFINITY, NAN, ruin

IDS = torch.arange(300)


def make_table(*optimizers: Optimizer, serving: bool = False) -> Table:
    segments = tuple(Segment(2, optimizer, compressor=Fp16Compressor()) for optimizer in optimizers)
    return Table(TableConfig(name="movie", segments=segments, serving=serving))


def saved(folder: Path, table: Table, *ruined: tuple[int, int, bytes]) -> Path:
    """Give the ids rows of ones, save them, and put a value at a place of some rows."""
    table.assign(IDS, torch.ones(len(IDS), table.dim), time=7)
    (path,) = table.save(folder / "movie", num_shards=1)
    for id_, place, value in ruined:
        ruin(Path(path), id_, place, value)
    return folder / "movie"


@pytest.mark.parametrize("in_use", [False, True])
@pytest.mark.parametrize(
    ("place", "value", "what"),
    [(1, NAN, "weight 1 is -?nan"), (3, INFINITY, "weight 3 is inf"), (5, INFINITY, "its optimizer's number 1 is inf")],
)
def test_a_row_that_is_not_finite_is_refused_and_nothing_is_lost(
    tmp_path: Path, place: int, value: bytes, what: str, in_use: bool
) -> None:
    adagrad = AdagradOptimizer()
    basename = saved(tmp_path, make_table(adagrad, adagrad), (42, place, value))
    table = make_table(adagrad, adagrad)
    if in_use:
        table.assign(torch.tensor([1, -9]), torch.full((2, 4), 2.0))
    with pytest.raises(NotFiniteError, match=f"table 'movie': of the row of id 42 in .*, {what}; .*--drop_not_finite"):
        table.restore(basename)
    assert len(table) == (2 if in_use else 0)
    assert table.lookup(torch.tensor([-9])).tolist() == [[2.0 if in_use else 0.0] * 4]


@pytest.mark.parametrize("in_use", [False, True])
def test_dropped_rows_are_counted_and_leave_no_older_ones(
    tmp_path: Path, in_use: bool, caplog: pytest.LogCaptureFixture
) -> None:
    basename = saved(tmp_path, make_table(AdagradOptimizer()), (42, 0, NAN), (77, 3, INFINITY))
    table = make_table(AdagradOptimizer())
    if in_use:
        table.assign(torch.tensor([42, -9]), torch.full((2, 2), 2.0))
    assert table.restore(basename, clear=False, not_finite=NotFinite.DROP) == 298
    assert f"{basename}: 2 rows were not finite and were dropped" in caplog.text
    assert table.contains(torch.tensor([42, 77])).tolist() == [False, False]
    assert len(table) == 298 + in_use
    good = torch.tensor([one for one in IDS.tolist() if one not in (42, 77)])
    assert table.lookup(good).eq(1).all()
    assert table.native.max_time == 7


def test_whole_files_drop_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    basename = saved(tmp_path, make_table(AdagradOptimizer()))
    assert make_table(AdagradOptimizer()).restore(basename, not_finite=NotFinite.DROP) == 300
    assert not caplog.text


def test_tools_read_what_is_there(tmp_path: Path) -> None:
    basename = saved(tmp_path, make_table(SgdOptimizer()), (42, 0, NAN))
    table = make_table(SgdOptimizer())
    assert table.restore(basename, not_finite=NotFinite.KEEP) == 300
    assert table.lookup(torch.tensor([42])).isnan().tolist() == [[True, False]]


def test_bits_of_a_step_number_are_no_infinity(tmp_path: Path) -> None:
    basename = saved(tmp_path, make_table(DynamicWdAdagradOptimizer()), (42, 4, INFINITY))
    assert make_table(DynamicWdAdagradOptimizer()).restore(basename) == 300
    basename = saved(tmp_path, make_table(DynamicWdAdagradOptimizer()), (42, 3, INFINITY))
    with pytest.raises(NotFiniteError, match="id 42"):
        make_table(DynamicWdAdagradOptimizer()).restore(basename)


def test_rows_of_a_serving_table_are_looked_at_through_their_compressor(tmp_path: Path) -> None:
    half_infinity = b"\x00\x3c\x00\xfc"  # 1 and -infinity
    basename = saved(tmp_path, make_table(SgdOptimizer(), serving=True), (42, 0, half_infinity))
    with pytest.raises(NotFiniteError, match="of the row of id 42 in .*, weight 1 is -inf"):
        make_table(SgdOptimizer(), serving=True).restore(basename)
    assert make_table(SgdOptimizer(), serving=True).restore(basename, not_finite=NotFinite.DROP) == 299


def test_many_tables_stay_as_they_were(tmp_path: Path) -> None:
    config = TableConfig(name="movie", segments=(Segment(2, SgdOptimizer()),))
    tables = MultiTable({"a": config, "b": config})
    tables.assign({name: (IDS, torch.ones(len(IDS), 2)) for name in "ab"})
    tables.save(tmp_path / "model", num_shards=1)
    ruin(tmp_path / "model.b-00000-of-00001", 5, 0)
    other = MultiTable({"a": config, "b": config})
    with pytest.raises(NotFiniteError, match="the row of id 5"):
        other.restore(tmp_path / "model")
    assert len(other["a"]) == 0
    other.restore(tmp_path / "model", not_finite=NotFinite.DROP)
    assert len(other["a"]) == 300 and len(other["b"]) == 299
