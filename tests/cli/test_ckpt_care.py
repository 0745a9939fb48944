"""`monolith ckpt` in a narrow terminal, in a pipe, with things in its way, and with Ctrl-C."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from monolith.checkpoint import ModelDirOwner, list_snapshots
from monolith.checkpoint.format.durable_files import file_crc32c
from monolith.checkpoint.format.state_files import read_checkpoint_file
from monolith.checkpoint.torch_import import imported_table
from monolith.cli.app import app
from monolith.errors import CorruptFileError, ModelDirInUseError
from tests.checkpoint.made_snapshots import make_rows, names_in, save
from tests.checkpoint.small_state import State
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def ckpt(*arguments: object, columns: int = 200) -> str:
    environment = {"COLUMNS": str(columns)}
    done = CliRunner().invoke(app, ["ckpt", *map(str, arguments)], env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def model(tmp_path):
    for step in (1, 2, 1_000_000):
        save(tmp_path / "model", step, make_rows({1: [1.0, 2.0, 3.0]}, {7: [1.0, 1.0]}))
    return tmp_path / "model"


def test_names_are_whole_in_a_narrow_terminal(model):
    lines = ckpt("ls", model, columns=80).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [name for name in names_in(model) if not any(name in line.split() for line in lines)] == []


def test_an_empty_folder_is_told_and_what_was_set_aside_is_listed(model, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "has no snapshots" in ckpt("ls", tmp_path / "empty")
    ckpt("rollback", model / "model.ckpt-2")
    assert "model.ckpt-1000000.rolled-back" in ckpt("ls", model)
    assert json.loads(ckpt("ls", model, "--json"))["set_aside"] == ["model.ckpt-1000000.rolled-back"]


def test_a_url_is_refused_with_the_way_out(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = "s3://bucket/model"
    commands = [("ls", url), ("show", url), ("verify", url), ("diff", model, url), ("compact", url)]
    commands += [(name, f"{url}/model.ckpt-2") for name in ("rollback", "rm")]
    for command in [*commands, ("reshard", model, url, "--shards", 2), ("export-parquet", model, url)]:
        with pytest.raises(ValueError, match=rf"^{url}.* is a URL, and .* folders of this machine.*SnapshotStore"):
            ckpt(*command)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_dense_weights_alone_are_no_damage(tmp_path):
    state = State()
    for _ in range(2):
        state.train(1)
        state.freeze(tables=None, extra={"dense_only": True}).write_snapshot(tmp_path)
    path = tmp_path / "model.ckpt-2"
    assert json.loads(ckpt("ls", tmp_path, "--json"))["snapshots"][1]["notes"] == ["dense weights only", "newest"]
    assert "Dense weights only" in ckpt("show", path)
    assert "is whole" in ckpt("verify", path, "--deep")
    assert "weight" in ckpt("diff", tmp_path / "model.ckpt-1", path)
    for command in (("export-parquet", path, tmp_path / "rows"), ("reshard", path, tmp_path / "out", "-n", 2)):
        with pytest.raises(ValueError, match="has dense weights only"):
            ckpt(*command)
    assert names_in(tmp_path) == ["model.ckpt-1", "model.ckpt-2", *(["out"] if (tmp_path / "out").exists() else [])]


def test_checksums_are_shown(model):
    path = model / "model.ckpt-2"
    wanted = {name.relative_to(path).as_posix(): file_crc32c(name) for name in path.rglob("*") if name.is_file()}
    wanted.pop("manifest.json")
    shown = json.loads(ckpt("show", path, "--json"))["files"]
    assert {name: entry["crc32c"] for name, entry in shown.items()} == wanted
    text = ckpt("show", path, "--files")
    assert all(name in text and f"{crc:08x}" in text for name, crc in wanted.items())


def test_a_pipe_gets_no_empty_lines(model, tmp_path):
    assert len(ckpt("verify", model, "--deep").splitlines()) == 1
    assert len(ckpt("reshard", model, tmp_path / "out", "-n", 2).splitlines()) == 1


@pytest.mark.parametrize("name", ["model.ckpt-", "model.ckpt-x", "model.ckpt-3.tmp", "model.ckpt-3.delta-0", "other"])
def test_only_snapshots_are_removed(model, name):
    (model / name).mkdir()
    with pytest.raises(FileNotFoundError, match="is no snapshot"):
        ckpt("rm", model / name, "--force")
    assert (model / name).is_dir()


def test_what_was_set_aside_is_removed_but_not_under_a_trainer(model):
    ckpt("rollback", model / "model.ckpt-1")
    with ModelDirOwner(model), pytest.raises(ModelDirInUseError):
        ckpt("rm", model / "model.ckpt-2.rolled-back")
    ckpt("rm", model / "model.ckpt-2.rolled-back")
    assert names_in(model) == ["model.ckpt-1", "model.ckpt-1000000.rolled-back"]


@pytest.mark.parametrize("command", ["reshard", "export-parquet", "import-torch"])
@pytest.mark.parametrize("inside", [False, True])
def test_a_file_in_the_way_is_named(model, tmp_path, command, inside):
    out = tmp_path / "file" / "below" if inside else tmp_path / "file"
    (tmp_path / "file").write_text("not yours")
    torch.save({"mov.weight": torch.ones(1, 2)}, tmp_path / "w.pt")
    np.save(tmp_path / "ids.npy", np.array([1]))
    arguments = {
        "reshard": (model, out, "-n", 2),
        "export-parquet": (model, out),
        "import-torch": (tmp_path / "w.pt", tmp_path / "ids.npy", out, "--table", "mov", "--like", model),
    }[command]
    with pytest.raises(NotADirectoryError, match=r"file is a file; name a folder"):
        ckpt(command, *arguments)
    assert (tmp_path / "file").read_text() == "not yours"


def test_parquet_files_are_written_only_if_all_tables_are_whole(model, tmp_path):
    file = model / "model.ckpt-2" / "tables" / "uid-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[-30] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFileError, match="uid-00000-of-00001 is damaged"):
        ckpt("export-parquet", model / "model.ckpt-2", tmp_path / "rows")
    assert not (tmp_path / "rows").exists()  # mov comes before uid


def test_resharding_and_compacting_tell_the_text_file(model, tmp_path):
    (model / "model.ckpt-2" / "preserved").touch()  # of this folder, not of the snapshot
    path = tmp_path / "out" / "model.ckpt-2"
    ckpt("reshard", model / "model.ckpt-2", tmp_path / "out", "-n", 3)
    assert read_checkpoint_file(tmp_path / "out").model_checkpoint_path == str(path)
    assert not (path / "preserved").exists()
    state = State()
    trackers = state.track()
    base = state.freeze(trackers=trackers).write_snapshot(tmp_path / "chain")
    state.train(3)
    state.freeze(trackers=trackers).write_delta(base)
    ckpt("compact", tmp_path / "chain")
    assert read_checkpoint_file(tmp_path / "chain").model_checkpoint_path == str(tmp_path / "chain" / "model.ckpt-3")


def import_mov(tmp_path, model, out, state=None):
    torch.save(state or {"mov.weight": torch.tensor([[1.0, 2.0]])}, tmp_path / "w.pt")
    np.save(tmp_path / "ids.npy", np.array([5]))
    return ckpt("import-torch", tmp_path / "w.pt", tmp_path / "ids.npy", out, "--table", "mov", "--like", model)


def test_an_embedding_by_itself_is_taken_for_the_table(model, tmp_path):
    assert "1 rows imported" in import_mov(tmp_path, model, tmp_path / "new", torch.nn.Embedding(1, 2).state_dict())


def test_a_module_is_refused_with_what_to_do_instead(model, tmp_path):
    with pytest.raises(CorruptFileError, match=r"tensors alone.*torch.save\(model.state_dict\(\)") as refused:
        import_mov(tmp_path, model, tmp_path / "new", torch.nn.Embedding(1, 2))
    assert "weights_only" not in str(refused.value) and "\x1b" not in str(refused.value)


def test_an_import_leaves_nothing_half_done_and_respects_a_trainer(model, tmp_path, monkeypatch):
    out = tmp_path / "new"
    out.mkdir()
    with ModelDirOwner(out), pytest.raises(ModelDirInUseError):
        import_mov(tmp_path, model, out)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="model.ckpt-1000000 cannot be written"):
        patch.setattr(imported_table, "write_manifest", _no_space)
        import_mov(tmp_path, model, out)
    assert names_in(out) == []
    import_mov(tmp_path, model, out)
    assert [path.name for path in list_snapshots(out)] == ["model.ckpt-1000000"]


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_ctrl_c_is_no_traceback_wherever_it_comes(model, tmp_path):
    for wait_for in ("monolith", "torch"):  # early, and while the largest import is under way
        program = (
            "import sys, os, signal, importlib.abc\n"
            "class Now(importlib.abc.MetaPathFinder):\n"
            "    def find_spec(self, name, path, target=None):\n"
            f"        if name == {wait_for!r} + '.cli.app' or name == {wait_for!r}:\n"
            "            os.kill(os.getpid(), signal.SIGINT)\n"
            "from monolith.cli.run import main\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores it
            "sys.meta_path.insert(0, Now())\n"
            "sys.argv = ['monolith', 'ckpt', 'ls', sys.argv[1]]\n"
            "main()\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", program, str(model)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 130
        assert "Traceback" not in done.stderr
