"""Looking into snapshots without a model."""

import numpy as np
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file

from monolith.checkpoint.inspect import TableFiles, diff_snapshots, summarize
from monolith.checkpoint.inspect.parquet import export_parquet
from monolith.errors import CorruptFileError
from monolith.native_training.summary.utils import get_nas_weight_json
from tests.checkpoint.made_snapshots import PLAN, make_rows, save
from tests.checkpoint.small_state import State

UID = {id_: [id_ + 0.25, id_ + 0.5, -float(id_)] for id_ in (-3, 0, 7, 1 << 62)}
MOV = {9: [1.0, 2.0]}


def test_a_summary_counts_rows_and_sizes(tmp_path):
    path = save(tmp_path, 10, make_rows(UID, MOV), extra={"note": 1}, time=50.0)
    summary = summarize(path)
    assert (summary.step, summary.generation, summary.epoch, summary.time) == (10, 1, 10, 50.0)
    assert (summary.num_rows, summary.extra, summary.dense) == (5, {"note": 1}, {"model/weight": (2,)})
    assert summary.bytes == sum(one.stat().st_size for one in path.rglob("*") if one.is_file()) - len(
        (path / "manifest.json").read_bytes()
    )
    mov, uid = summary.tables
    assert (uid.name, uid.num_rows, uid.num_shards) == ("uid", 4, 1)
    assert (uid.slices, uid.optimizers) == ({"vec": 2, "bias": 1}, {"vec": "adagrad", "bias": "adagrad"})
    assert (mov.name, mov.num_rows) == ("mov", 1)


def test_rows_come_in_parts_each_once(tmp_path):
    ids = np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, size=500)
    rows = {int(id_): [float(place), 0.5, 1.5] for place, id_ in enumerate(ids)}
    path = save(tmp_path, 1, make_rows(rows, {}))
    files = TableFiles(path / "tables" / "uid", PLAN.tables()["uid"])
    found = {}
    for part in files.parts():
        assert (np.diff(part.ids) > 0).all()
        assert (part.last_seen == 100).all()
        found |= dict(zip(part.ids.tolist(), part.weights.tolist(), strict=True))
    assert found == rows
    assert files.num_rows == 500


def test_differences_of_rows_and_tensors(tmp_path):
    same, odd = torch.tensor([1.0, float("nan")]), torch.ones(2)
    first = save(
        tmp_path, 1, make_rows(UID, MOV), dense={"w": torch.zeros(3), "same": same, "old": odd, "s": odd.clone()}
    )
    changed = {**{id_: row for id_, row in UID.items() if id_ != 0}, 7: [9.0, 9.0, 9.0], 8: [0.0, 0.0, 0.0]}
    w = torch.tensor([0.0, -0.5, 0.25])
    second = save(tmp_path, 2, make_rows(changed, {}), dense={"w": w, "same": same, "new": odd, "s": torch.ones(1)})
    difference = diff_snapshots(first, second)
    mov, uid = difference.tables
    assert (uid.name, uid.added, uid.removed, uid.changed, uid.unchanged) == ("uid", 1, 1, 1, 2)
    assert (mov.name, mov.added, mov.removed, mov.changed, mov.unchanged) == ("mov", 0, 1, 0, 0)
    assert difference.dense_changed == {"w": 0.5, "s": float("inf")}
    assert (difference.dense_added, difference.dense_removed) == (("new",), ("old",))


def test_optimizer_state_counts_as_a_change(tmp_path):
    first = save(tmp_path, 1, make_rows(UID, {}))
    tables = make_rows(UID, {})
    tables["uid"].apply_gradients(torch.tensor([7]), torch.ones(1, 3), time=200)
    tables["uid"].assign(torch.tensor([7]), torch.tensor([UID[7]]))
    assert diff_snapshots(first, save(tmp_path, 2, tables)).tables[1].changed == 1


def test_a_snapshot_does_not_differ_from_itself(tmp_path):
    path = save(tmp_path, 1, make_rows(UID, MOV))
    difference = diff_snapshots(path, path)
    assert [(one.added, one.removed, one.changed, one.unchanged) for one in difference.tables] == [
        (0, 0, 0, 1),
        (0, 0, 0, 4),
    ]
    assert not difference.dense_changed


def test_parquet_pages_have_checksums(tmp_path):
    (file,) = export_parquet(save(tmp_path, 1, make_rows(UID, {})), tmp_path / "out", ["uid"])
    ids = pyarrow.parquet.read_metadata(file).row_group(0).column(0)
    content = bytearray(file.read_bytes())
    content[ids.dictionary_page_offset + ids.total_compressed_size - 1] ^= 1
    file.write_bytes(content)
    with pytest.raises(OSError, match="CRC"):
        pyarrow.parquet.read_table(file, page_checksum_verification=True)


def test_files_of_another_save_are_not_exported_compared_or_read(tmp_path):
    old = save(tmp_path / "old", 1, make_rows({1: [1.0, 2.0, 3.0]}, {}), dense={"model/arch_tensor": torch.zeros(2)})
    new = save(tmp_path / "new", 2, make_rows({1: [1.0, 2.0, 4.0]}, {}), dense={"model/arch_tensor": torch.ones(2)})
    (table,) = (new / "tables").glob("uid-*")
    whole = table.read_bytes()
    table.write_bytes((old / "tables" / table.name).read_bytes())
    with pytest.raises(CorruptFileError, match="checksum"):
        export_parquet(new, tmp_path / "out")
    with pytest.raises(CorruptFileError, match="checksum"):
        diff_snapshots(old, new)
    table.write_bytes(whole)
    (new / "dense.safetensors").write_bytes((old / "dense.safetensors").read_bytes())
    with pytest.raises(CorruptFileError, match="checksum"):
        get_nas_weight_json(new)


def test_parquet_has_ids_and_slices(tmp_path):
    path = save(tmp_path, 1, make_rows(UID, MOV))
    files = export_parquet(path, tmp_path / "out")
    assert [one.name for one in files] == ["mov.parquet", "uid.parquet"]
    table = pyarrow.parquet.read_table(files[1])
    assert table.column_names == ["id", "last_seen", "vec", "bias"]
    rows = {row["id"]: [*row["vec"], *row["bias"]] for row in table.to_pylist()}
    assert rows == UID
    assert set(table["last_seen"].to_pylist()) == {100}
    with pytest.raises(ValueError, match="no table nope; it has mov, uid"):
        export_parquet(path, tmp_path / "out", ["nope"])


def test_an_empty_table_is_an_empty_file(tmp_path):
    (file,) = export_parquet(save(tmp_path, 1, make_rows(UID, {})), tmp_path / "out", ["mov"])
    assert pyarrow.parquet.read_table(file).num_rows == 0


def test_damage_is_noticed_before_rows_are_read(tmp_path):
    path = save(tmp_path, 1, make_rows(UID, MOV))
    file = path / "tables" / "uid-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFileError):
        export_parquet(path, tmp_path / "out", ["uid"])
    assert not (tmp_path / "out").exists()


def test_architecture_weights_as_text(tmp_path):
    weights = torch.tensor([[0.5, 0.1], [2.0, -1.0]])
    dense = {"model/tower.arch_tensor": weights, "optimizer/0/arch_tensor": weights + 1, "model/a": torch.ones(1)}
    path = save(tmp_path, 3, dense=dense)
    expected = ["0.5", "0.1", "2.0", "-1.0"]
    assert get_nas_weight_json(tmp_path) == get_nas_weight_json(path) == expected
    assert get_nas_weight_json(path / "dense.safetensors", "tower.arch") == expected
    with pytest.raises(ValueError, match="no weight with 'nope'"):
        get_nas_weight_json(path, "nope")
    with pytest.raises(FileNotFoundError):
        get_nas_weight_json(tmp_path / "absent")
    save_file({"x": torch.ones(1)}, tmp_path / "f.safetensors")
    with pytest.raises(ValueError, match="no weight"):
        get_nas_weight_json(tmp_path / "f.safetensors")


def test_architecture_weights_of_the_newest_delta(tmp_path):
    state = State()
    base = state.freeze(trackers=state.track(), dense={"model/arch_tensor": torch.ones(2)}).write_snapshot(tmp_path)
    state.train(1)
    state.freeze(trackers=state.track(), dense={"model/arch_tensor": torch.zeros(2)}).write_delta(base)
    assert get_nas_weight_json(tmp_path) == ["0.0", "0.0"]
    assert get_nas_weight_json(base) == ["1.0", "1.0"]
