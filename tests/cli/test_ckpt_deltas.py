"""`monolith ckpt` with deltas, and the commands that write the same state to other files."""

import json

import numpy as np
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from monolith.checkpoint import ModelDirOwner, latest_state, load_snapshot
from monolith.cli.app import app
from monolith.errors import CorruptFileError, ModelDirInUseError
from monolith.model import make_tables
from tests.checkpoint.made_snapshots import names_in
from tests.checkpoint.small_state import PLAN, State, content_of, rows_of


def ckpt(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["ckpt", *map(str, arguments)], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def chain(tmp_path):
    """A snapshot of step 4 with deltas up to steps 6 and 8, the state of step 8, and its rows at each of the three."""
    state = State()
    state.train(4)
    trackers = state.track()
    links = [state.freeze(trackers=trackers).write_snapshot(tmp_path / "model", num_shards=2)]
    rows = [rows_of(state.tables)[0]]
    for _ in range(2):
        state.train(2)
        links.append(state.freeze(trackers=trackers).write_delta(links[-1]))
        rows.append(rows_of(state.tables)[0])
    return tmp_path / "model", state, rows


def restored(path):
    tables = make_tables(PLAN)
    load_snapshot(path, plan=PLAN, tables=tables)
    return rows_of(tables)


def test_ls_and_show(chain):
    model, _, _ = chain
    entries = json.loads(ckpt("ls", model, "--json"))["snapshots"]
    assert [(entry["name"], entry["step"]) for entry in entries] == [
        ("model.ckpt-4", 4),
        ("model.ckpt-4.delta-1", 6),
        ("model.ckpt-4.delta-2", 8),
    ]
    assert entries[1]["notes"][0] == "on model.ckpt-4" and entries[2]["notes"][-1] == "newest"
    assert any("rows gone" in note for note in entries[2]["notes"])
    text = ckpt("show", model)
    assert "step 8" in text and "A delta on model.ckpt-4.delta-1" in text


def test_verify_checks_what_a_delta_builds_on(chain):
    model, _, _ = chain
    assert "with the 2 it builds on" in ckpt("verify", model, "--deep")
    file = next((model / "model.ckpt-4.delta-1" / "tables").iterdir())
    content = bytearray(file.read_bytes())
    content[90] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"chain of deltas is broken at .*delta-1.*model.ckpt-4 can be restored"):
        ckpt("verify", model)
    assert "is whole" in ckpt("verify", model / "model.ckpt-4")


def test_diff_is_of_the_states_that_deltas_lead_to(chain):
    model, _, rows = chain
    values = json.loads(ckpt("diff", model / "model.ckpt-4", model, "--json"))["tables"]
    for one in values:
        old, new = rows[0][one["name"]], rows[2][one["name"]]
        both = old.keys() & new.keys()
        assert (one["added"], one["removed"]) == (len(new.keys() - old.keys()), len(old.keys() - new.keys()))
        assert one["changed"] + one["unchanged"] == len(both)
        assert 0 < one["changed"] <= len(both)
    assert sum(one["removed"] for one in values) > 0


def test_export_parquet_of_a_delta_has_all_rows(chain, tmp_path):
    model, state, rows = chain
    ckpt("export-parquet", model, tmp_path / "rows", "--table", "uid")
    table = pyarrow.parquet.read_table(tmp_path / "rows" / "uid.parquet")
    ids = table["id"].to_numpy()
    assert sorted(ids.tolist()) == sorted(rows[2]["uid"])
    weights = np.stack(table["vec"].to_numpy())
    assert np.array_equal(weights, state.tables["uid"].lookup(torch.from_numpy(ids.copy())).numpy())


def test_rollback_to_a_delta(chain):
    model, _, rows = chain
    ckpt("rollback", model / "model.ckpt-4.delta-1")
    assert names_in(model) == ["model.ckpt-4", "model.ckpt-4.delta-1", "model.ckpt-4.delta-2.rolled-back"]
    path = latest_state(model)
    assert path is not None and restored(path)[0] == rows[1]


def test_rollback_to_a_delta_whose_chain_is_broken_changes_nothing(chain):
    model, _, _ = chain
    (model / "model.ckpt-4" / "stream.json").write_text("{}")
    before = content_of(model)
    with pytest.raises(CorruptFileError):
        ckpt("rollback", model / "model.ckpt-4.delta-1")
    assert content_of(model) == before


def test_rm_keeps_what_a_delta_builds_on(chain):
    model, _, rows = chain
    for needed in ("model.ckpt-4", "model.ckpt-4.delta-1"):
        with pytest.raises(ValueError, match="is needed by"):
            ckpt("rm", model / needed, "--force")
    with pytest.raises(ValueError, match="newest state.*--force"):
        ckpt("rm", model / "model.ckpt-4.delta-2")
    ckpt("rm", model / "model.ckpt-4.delta-2", "--force")
    path = latest_state(model)
    assert path is not None and restored(path)[0] == rows[1]


def test_compact(chain, tmp_path):
    model, state, _ = chain
    fresh = state.freeze().write_snapshot(tmp_path / "fresh")
    assert "2 deltas compacted" in ckpt("compact", model)
    assert names_in(model) == ["model.ckpt-4", "model.ckpt-8"]
    assert content_of(model / "model.ckpt-8") == content_of(fresh)
    assert "there are no deltas on it" in ckpt("compact", model)
    with ModelDirOwner(model), pytest.raises(ModelDirInUseError):
        ckpt("compact", model)
    with pytest.raises(FileNotFoundError):
        ckpt("compact", tmp_path / "absent")


@pytest.mark.parametrize("num_shards", [1, 3, 7, 300])
def test_reshard_and_back_gives_the_same_bytes(chain, tmp_path, num_shards):
    model, _, _ = chain
    assert f"{num_shards} files per table" in ckpt(
        "reshard", model / "model.ckpt-4", tmp_path / "there", "--shards", num_shards
    )
    there = tmp_path / "there" / "model.ckpt-4"
    assert len(list((there / "tables").iterdir())) == 2 * num_shards
    assert restored(there) == restored(model / "model.ckpt-4")
    ckpt("reshard", there, tmp_path / "back", "-n", 2)
    assert content_of(tmp_path / "back" / "model.ckpt-4") == content_of(model / "model.ckpt-4")


def test_what_cannot_be_resharded_is_said(chain, tmp_path):
    model, _, _ = chain
    with pytest.raises(ValueError, match="is a delta.*compact"):
        ckpt("reshard", model, tmp_path / "out", "-n", 2)
    with pytest.raises(ValueError, match="over itself"):
        ckpt("reshard", model / "model.ckpt-4", model, "-n", 2)
    done = CliRunner().invoke(app, ["ckpt", "reshard", str(model), str(tmp_path / "out"), "-n", "65537"])
    assert done.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_import_torch_like_a_delta_is_refused(chain, tmp_path):
    model, _, _ = chain
    save_file({"uid.weight": torch.zeros(2, 4)}, tmp_path / "w.safetensors")
    np.save(tmp_path / "ids.npy", np.array([11, 12]))
    files = (tmp_path / "w.safetensors", tmp_path / "ids.npy")
    with pytest.raises(ValueError, match="is a delta.*compact"):
        ckpt("import-torch", *files, tmp_path / "new", "--table", "uid", "--key", "uid.weight", "--like", model)


@pytest.mark.parametrize("command", ["ls", "show", "verify", "diff", "reshard", "compact", "rollback", "rm"])
def test_help_has_an_example(command):
    assert f"monolith ckpt {command}" in ckpt(command, "--help")
