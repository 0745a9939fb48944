"""`monolith ckpt`, called as the command calls it."""

import json

import numpy as np
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from monolith.checkpoint import latest_state
from monolith.checkpoint.format.state_files import add_exempt_paths
from monolith.cli.app import app
from monolith.embedding import AdagradOptimizer, Segment, Table, TableConfig
from monolith.errors import CorruptFileError
from tests.checkpoint.made_snapshots import make_rows, names_in, save


def ckpt(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["ckpt", *map(str, arguments)], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def model(tmp_path):
    save(tmp_path / "model", 1, make_rows({1: [1.0, 2.0, 3.0]}, {}))
    save(tmp_path / "model", 2, make_rows({1: [1.0, 2.0, 3.0], 2: [4.0, 5.0, 6.0]}, {7: [1.0, 1.0]}))
    return tmp_path / "model"


def test_ls(model):
    add_exempt_paths(model, ["model.ckpt-1"])
    (save(model, 3) / "stream.json").unlink()
    entries = json.loads(ckpt("ls", model, "--json"))["snapshots"]
    assert [entry["name"] for entry in entries] == ["model.ckpt-1", "model.ckpt-2", "model.ckpt-3"]
    assert (entries[0]["num_rows"], entries[0]["notes"], entries[1]["notes"]) == (1, ["exempt"], ["newest"])
    assert "stream.json is missing" in entries[2]["problem"]
    text = ckpt("ls", model)
    assert "model.ckpt-2" in text and "not usable" in text
    with pytest.raises(FileNotFoundError, match="no folder"):
        ckpt("ls", model / "absent")


def test_show(model):
    values = json.loads(ckpt("show", model, "--json"))
    assert (values["step"], [table["num_rows"] for table in values["tables"]]) == (2, [1, 2])
    text = ckpt("show", model / "model.ckpt-1")
    assert "step 1" in text and "vec: 2 x adagrad, bias: 1 x adagrad" in text and "model/weight" in text


def test_verify(model):
    assert "is whole" in ckpt("verify", model)
    assert "is whole" in ckpt("verify", model / "model.ckpt-1", "--deep")
    file = model / "model.ckpt-2" / "tables" / "uid-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFileError, match="uid-00000-of-00001 is damaged"):
        ckpt("verify", model)


def test_diff(model):
    values = json.loads(ckpt("diff", model / "model.ckpt-1", model, "--json"))
    assert [(one["name"], one["added"], one["unchanged"]) for one in values["tables"]] == [("mov", 1, 0), ("uid", 1, 1)]
    assert values["dense_changed"] == {"model/weight": 1.0}
    assert "model/weight" in ckpt("diff", model / "model.ckpt-1", model)


def test_rollback(model):
    assert "model.ckpt-2.rolled-back: set aside" in ckpt("rollback", model / "model.ckpt-1")
    assert names_in(model) == ["model.ckpt-1", "model.ckpt-2.rolled-back"]
    assert latest_state(model).name == "model.ckpt-1"
    assert "was the newest already" in ckpt("rollback", model / "model.ckpt-1")


def test_rm(model):
    with pytest.raises(ValueError, match="--force"):
        ckpt("rm", model / "model.ckpt-2")
    ckpt("rm", model / "model.ckpt-1")
    assert names_in(model) == ["model.ckpt-2"]
    ckpt("rm", model / "model.ckpt-2", "--force")
    assert names_in(model) == []
    with pytest.raises(FileNotFoundError, match="is no snapshot"):
        ckpt("rm", model)


def test_export_parquet(model, tmp_path):
    assert "uid.parquet: 2 rows" in ckpt("export-parquet", model, tmp_path / "rows", "--table", "uid")
    table = pyarrow.parquet.read_table(tmp_path / "rows" / "uid.parquet")
    assert sorted(table["id"].to_pylist()) == [1, 2]
    assert not (tmp_path / "rows" / "mov.parquet").exists()


def test_import_torch(model, tmp_path):
    save_file({"ebc.embedding_bags.mov.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}, tmp_path / "w.safetensors")
    np.save(tmp_path / "ids.npy", np.array([11, 12]))
    files = (tmp_path / "w.safetensors", tmp_path / "ids.npy")
    assert "2 rows of 2 floats" in ckpt("import-torch", *files, tmp_path / "out" / "mov", "--table", "mov")
    table = Table(TableConfig(name="mov", segments=(Segment(2, AdagradOptimizer()),)))
    table.restore(tmp_path / "out" / "mov")
    assert table.lookup(torch.tensor([12])).tolist() == [[3.0, 4.0]]
    ckpt("import-torch", *files, tmp_path / "new", "--table", "mov", "--like", model)
    values = json.loads(ckpt("diff", model, tmp_path / "new", "--json"))["tables"]
    assert [(one["name"], one["added"], one["removed"], one["unchanged"]) for one in values] == [
        ("mov", 2, 1, 0),
        ("uid", 0, 0, 2),
    ]
    with pytest.raises(ValueError, match="--merge needs --like"):
        ckpt("import-torch", *files, tmp_path / "x", "--table", "mov", "--merge")
