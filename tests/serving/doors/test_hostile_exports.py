"""`serve`, its workers and `serve-shard` refuse a hostile export folder: they name the file, without a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.export.crafted import rewrite_graph
from tests.export.movie import export
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import ROOT

pytestmark = pytest.mark.services

DOORS = {
    "serve": (["serve"], {}),
    "workers": (["serve", "--workers", "1"], {}),
    "replica": (["serve-shard", "--shard", "0"], {"num_shards": 1}),
}


def link_outside(path: Path, elsewhere: Path) -> None:
    """Put a file that the version names elsewhere, and a link in its place."""
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def weights_outside(model: onnx.ModelProto) -> None:
    """Let the graph read its weights from a file of the system."""
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../../../../../../../../etc/passwd"


def refused(command: list[str], base: Path, tmp_path: Path) -> str:
    """Return what a command says that must not serve this folder."""
    port = ["--port", "0", "--ready-file", str(tmp_path / "ready.json")]
    done = subprocess.run(
        [sys.executable, "-m", "monolith", command[0], str(base), *command[1:], *port],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "Traceback" not in said
    assert not (tmp_path / "ready.json").exists()
    return " ".join(said.split())


@pytest.mark.parametrize("door", DOORS)
def test_a_link_to_a_file_outside(tmp_path, door):
    command, layout = DOORS[door]
    export(tmp_path / "base", 1, name="movie", **layout)
    pattern = "uid-*" if door == "replica" else "dense.onnx"
    (path,) = (tmp_path / "base").rglob(pattern)
    link_outside(path, tmp_path / "elsewhere")
    assert f"{path.name} is a symbolic link" in refused(command, tmp_path / "base", tmp_path)


def test_a_graph_that_reads_a_file_outside(tmp_path):
    command, layout = DOORS["serve"]
    export(tmp_path / "base", 1, name="movie", **layout)
    (graph,) = (tmp_path / "base").rglob("dense.onnx")
    rewrite_graph(graph.parent, weights_outside)
    said = refused(command, tmp_path / "base", tmp_path)
    assert "dense.onnx" in said and "root:" not in said
