"""Vectors of a feature as Parquet, and as an index that finds them again."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from monolith.checkpoint import list_snapshots
from monolith.checkpoint.inspect.row_report import read_row
from monolith.checkpoint.inspect.vectors import export_vectors
from monolith.cli.app import app
from tests.checkpoint.small_state import State


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder, state = tmp_path_factory.mktemp("vectors"), State()
    state.train(4)
    slotted = (torch.arange(3) + 1) | (9 << 48)
    state.tables["uid"].assign(slotted, torch.full((3, 4), 2.0), time=state.step * 86_400 // 4)
    state.freeze().write_snapshot(folder)
    return folder


def test_a_parquet_file_has_the_vector_of_every_row(model_dir, tmp_path):
    out = tmp_path / "deep" / "users.parquet"
    done = CliRunner().invoke(app, ["export-vectors", str(model_dir), "--feature", "uid", "--out", str(out)])
    assert done.exit_code == 0, done.exception
    found = pq.read_table(out).to_pydict()
    assert f"{len(found['id'])} vectors of uid" in done.output and len(found["id"]) > 20
    for id_, vector in zip(found["id"][:5], found["vector"][:5], strict=True):
        (values,) = [one.values for one in read_row(model_dir, "uid", id_).slices]
        assert vector == values
    assert not list(tmp_path.rglob("*.tmp"))


def test_only_the_ids_of_a_slot(model_dir, tmp_path):
    (snapshot,) = list_snapshots(model_dir)
    assert export_vectors(snapshot, "uid", tmp_path / "one.parquet", slot=9) == 3
    assert pq.read_table(tmp_path / "one.parquet").to_pydict()["vector"] == [[2.0] * 4] * 3


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--feature", "uid", "--out", "x.csv"], ".parquet or .faiss"),
        (["--feature", "uid", "--out", "x.faiss", "--metric", "cosine"], "metric must be one of dot, l2"),
        (["--feature", "nobody", "--out", "x.parquet"], "no feature or table 'nobody'; there are mov, uid"),
        (["--feature", "uid", "--out", "x.parquet", "--slice", "bias"], "name a slice of 'uid'"),
    ],
)
def test_wrong_questions_are_refused(model_dir, flags, words):
    done = CliRunner().invoke(app, ["export-vectors", str(model_dir), *flags])
    assert done.exit_code == 1 and words in str(done.exception)


@pytest.mark.services
def test_an_index_finds_each_vector_again(model_dir, tmp_path):
    faiss = pytest.importorskip("faiss")
    (snapshot,) = list_snapshots(model_dir)
    count = export_vectors(snapshot, "uid", tmp_path / "users.faiss", metric="l2")
    export_vectors(snapshot, "uid", tmp_path / "users.parquet")
    index, rows = faiss.read_index(str(tmp_path / "users.faiss")), pq.read_table(tmp_path / "users.parquet").to_pydict()
    assert index.ntotal == count == len(rows["id"])
    distance, found = index.search(np.array(rows["vector"][:9], np.float32), 1)
    assert found[:, 0].tolist() == rows["id"][:9] and (distance < 1e-6).all()
