"""A checkpoint with a row that is not finite: no door takes it unasked, all let go of the row when asked."""

import json

import pytest
import torch
from typer.testing import CliRunner

from monolith.checkpoint import compact, load_snapshot, restore_tables
from monolith.checkpoint.inspect.row_report import read_row
from monolith.checkpoint.shards import TableShard
from monolith.cli.app import app
from monolith.errors import NotFiniteError
from monolith.model import make_tables
from tests.checkpoint.made_snapshots import names_in
from tests.checkpoint.not_finite import ruin_row
from tests.checkpoint.small_state import PLAN, State, rows_of


@pytest.fixture
def chain(tmp_path):
    """A snapshot with a delta on it, in which a row of `uid` is not finite; the id, and the rows as they should be."""
    state = State()
    state.train(2, evict=False)
    trackers = state.track()
    base = state.freeze(trackers=trackers).write_snapshot(tmp_path, num_shards=1)
    before = set(rows_of(state.tables)[0]["uid"])
    state.train(2, evict=False)
    state.tables["uid"].apply_gradients(torch.tensor([3]), torch.ones(1, 4))
    id_ = min(before & set(rows_of(state.tables)[0]["uid"]))
    state.tables["uid"].apply_gradients(torch.tensor([id_]), torch.ones(1, 4))
    delta = state.freeze(trackers=trackers).write_delta(base)
    ruin_row(delta, "uid", id_, 5)
    expected = rows_of(state.tables)
    del expected[0]["uid"][id_]
    return delta, id_, expected


@pytest.mark.parametrize("in_use", [False, True])
def test_load_snapshot(chain, in_use, caplog):
    delta, id_, expected = chain
    tables = make_tables(PLAN)
    if in_use:
        tables["uid"].assign(torch.tensor([-1]), torch.ones(1, 4))
    with pytest.raises(NotFiniteError, match=f"table 'uid': of the row of id {id_} in .*delta-1.*number 1 is -?nan"):
        load_snapshot(delta, plan=PLAN, tables=tables)
    assert len(tables["uid"]) == in_use and len(tables["mov"]) == 0
    load_snapshot(delta, plan=PLAN, tables=tables, drop_not_finite=True)
    assert rows_of(tables) == expected
    assert "uid: 1 rows were not finite and were dropped" in caplog.text


def test_restore_tables(chain):
    delta, id_, expected = chain
    tables = make_tables(PLAN)
    tables["uid"].assign(torch.tensor([-1]), torch.ones(1, 4))
    with pytest.raises(NotFiniteError, match=f"id {id_} "):
        restore_tables(delta, {"uid": tables["uid"]})
    assert len(tables["uid"]) == 1
    restore_tables(delta, {"uid": tables["uid"]}, drop_not_finite=True)
    assert rows_of(tables)[0]["uid"] == expected[0]["uid"]


def test_a_shard_refuses_it(chain):
    delta, id_, _ = chain
    with pytest.raises(NotFiniteError, match=f"id {id_} "):
        TableShard(0, 1, PLAN, {}).restore_part(str(delta))


def test_compact(chain):
    delta, id_, expected = chain
    with pytest.raises(NotFiniteError, match=f"id {id_} "):
        compact(delta.parent)
    assert delta.name in names_in(delta.parent)
    done = CliRunner().invoke(app, ["ckpt", "compact", str(delta.parent), "--drop_not_finite"], catch_exceptions=False)
    assert "1 deltas compacted" in done.output
    tables = make_tables(PLAN)
    load_snapshot(delta.parent / f"model.ckpt-{4}", plan=PLAN, tables=tables)
    assert rows_of(tables) == expected


def test_inspection_shows_the_row(chain):
    delta, id_, _ = chain
    report = read_row(delta, "uid", id_)
    assert report.found and "NaN" in json.dumps(report.slices[0].state)
    done = CliRunner().invoke(app, ["ckpt", "diff", str(delta.parent / "model.ckpt-2"), str(delta)])
    assert done.exit_code == 0, done.output
