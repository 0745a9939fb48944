"""Weights of PyTorch and TorchRec become rows."""

import os
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from monolith.checkpoint import latest_state, load_snapshot
from monolith.checkpoint.torch_import import (
    IdMap,
    find_weight,
    import_into_snapshot,
    import_table,
    optimizer_of_kind,
    read_id_map,
    read_state_dict,
)
from monolith.embedding import Segment, Table, TableConfig
from monolith.errors import CorruptFileError
from monolith.model import make_tables
from tests.checkpoint.made_snapshots import PLAN, make_rows, save

WEIGHT = torch.arange(6.0).reshape(3, 2)
IDS = np.array([30, -4, 1 << 60])


class Collection(nn.Module):
    """Names its weights as TorchRec's EmbeddingBagCollection does."""

    def __init__(self):
        super().__init__()
        self.embedding_bags = nn.ModuleDict({"mov": nn.EmbeddingBag(3, 2), "movie": nn.EmbeddingBag(5, 4)})


def test_both_kinds_of_files(tmp_path):
    state = Collection().state_dict()
    torch.save(state, tmp_path / "a.pt")
    torch.save(
        {"epoch": 3, "model_state_dict": {f"module.{name}": one for name, one in state.items()}}, tmp_path / "b.pt"
    )
    save_file(state, tmp_path / "c.safetensors")
    for name in ("a.pt", "b.pt", "c.safetensors"):
        weight = find_weight(read_state_dict(tmp_path / name), "mov")
        assert torch.equal(weight, state["embedding_bags.mov.weight"])


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil-was-here",)


def test_a_file_that_would_run_code_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"w": Evil()}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps({"w": Evil()}))
    (tmp_path / "c.pt").write_bytes(b"nothing")
    (tmp_path / "d.safetensors").write_bytes(b"\xff" * 64)
    torch.save([1, 2], tmp_path / "e.pt")
    for name in ("a.pt", "b.pt", "c.pt", "d.safetensors", "e.pt"):
        with pytest.raises(CorruptFileError):
            read_state_dict(tmp_path / name)
    assert not (tmp_path / "evil-was-here").exists()


def test_a_file_of_torch_whose_checksum_is_wrong_is_refused(tmp_path):
    path = tmp_path / "w.pt"
    weight = torch.arange(600.0).view(200, 3)
    torch.save({"weight": weight}, path)
    content = bytearray(path.read_bytes())
    content[content.index(weight[100].numpy().tobytes())] ^= 1
    path.write_bytes(content)
    assert not torch.equal(torch.load(path, weights_only=True)["weight"], weight)  # torch does not look at it
    with pytest.raises(CorruptFileError, match="does not fit its checksum"):
        read_state_dict(path)


def test_finding_the_tensor():
    state = {
        "x.embeddings.a.weight": WEIGHT,
        "y.a.weight": WEIGHT + 1,
        "z.b.weight": WEIGHT,
        "b.weight": WEIGHT,
        "v": IDS,
    }
    assert find_weight(state, "a") is state["x.embeddings.a.weight"]
    assert find_weight(state, "a", "y.a.weight") is state["y.a.weight"]
    with pytest.raises(ValueError, match="several tensors .* z.b.weight, b.weight"):
        find_weight(state, "b")
    with pytest.raises(ValueError, match="no tensor is named like table 'c'"):
        find_weight(state, "c")
    with pytest.raises(ValueError, match="not rows of floats"):
        find_weight({"a": torch.ones(3)}, "a")


def ids_of(path, num_rows=3):
    found = read_id_map(path, num_rows)
    return dict(zip(found.ids.tolist(), found.rows.tolist(), strict=True))


def test_maps_of_ids(tmp_path):
    np.save(tmp_path / "ids.npy", IDS)
    np.save(tmp_path / "u.npy", np.array([1, 2, (1 << 64) - 1], dtype=np.uint64))
    (tmp_path / "plain.csv").write_text("30\n-4\n7\n")
    (tmp_path / "pairs.csv").write_text("2,30\n0,-4\n2,7\n")
    (tmp_path / "named.csv").write_text("id,row\n30,2\n-4,0\n")
    assert ids_of(tmp_path / "ids.npy") == {30: 0, -4: 1, 1 << 60: 2}
    assert ids_of(tmp_path / "u.npy") == {1: 0, 2: 1, -1: 2}
    assert ids_of(tmp_path / "plain.csv") == {30: 0, -4: 1, 7: 2}
    assert ids_of(tmp_path / "pairs.csv") == {30: 2, -4: 0, 7: 2}
    assert ids_of(tmp_path / "named.csv") == {30: 2, -4: 0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\n2\n", "2 ids for a weight of 3 rows"),
        ("1\n1\n2\n", "id 1 more than once"),
        ("3,1\n", "names rows 3 to 3"),
        ("-1,1\n", "names rows -1 to -1"),
        ("1\n2,3\n", "one column"),
        ("user,item\n1,2\n", "its columns are"),
        ("99999999999999999999\n", "no map of ids"),
    ],
)
def test_maps_that_cannot_be(tmp_path, text, words):
    (tmp_path / "ids.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_id_map(tmp_path / "ids.csv", 3)


def test_arrays_that_are_no_ids_are_refused_without_allocating(tmp_path):
    np.save(tmp_path / "floats.npy", np.ones(3))
    np.save(tmp_path / "objects.npy", np.array([Evil(), 1, 2], dtype=object), allow_pickle=True)
    np.save(tmp_path / "huge.npy", np.arange(8))
    content = (tmp_path / "huge.npy").read_bytes()
    (tmp_path / "huge.npy").write_bytes(content.replace(b"(8,), }          ", b"(8" + b"0" * 10 + b",), }"))
    assert b"80000000000" in (tmp_path / "huge.npy").read_bytes()
    for name in ("floats.npy", "objects.npy", "huge.npy"):
        with pytest.raises(CorruptFileError):
            read_id_map(tmp_path / name, 3)


def test_a_table_restores_what_was_imported(tmp_path):
    config = TableConfig(name="mov", segments=(Segment(2, optimizer_of_kind("adagrad", 0.5)),))
    paths = import_table(WEIGHT.half(), IdMap(IDS, np.arange(3)), config, tmp_path / "rows" / "mov", time=77)
    assert [os.path.basename(path) for path in paths] == ["mov-00000-of-00001"]
    table = Table(config)
    assert table.restore(tmp_path / "rows" / "mov") == 3
    assert torch.equal(table.lookup(torch.from_numpy(IDS)), WEIGHT)
    # The optimizer starts afresh: Adagrad with its default accumulator, as a new row has it.
    fresh = Table(config)
    fresh.assign(torch.from_numpy(IDS), WEIGHT, time=77)
    assert table.lookup_entry(torch.from_numpy(IDS)) == fresh.lookup_entry(torch.from_numpy(IDS))
    with pytest.raises(ValueError, match="no optimizer 'nope'; there are .*adagrad"):
        optimizer_of_kind("nope")


@pytest.mark.parametrize("merge", [False, True])
def test_a_snapshot_with_imported_rows_is_one_to_go_on_from(tmp_path, merge):
    like = save(tmp_path / "old", 5, make_rows({1: [1.0, 2.0, 3.0]}, {30: [8.0, 8.0], 31: [9.0, 9.0]}))
    ids = IdMap(IDS, np.array([0, 1, 1]))
    path = import_into_snapshot(WEIGHT, ids, "mov", like, tmp_path / "new", merge=merge)
    assert latest_state(tmp_path / "new") == path == tmp_path / "new" / "model.ckpt-5"
    tables = make_tables(PLAN)
    snapshot = load_snapshot(path, plan=PLAN, tables=tables)
    assert (snapshot.step, snapshot.stream) == (5, {"0": 5})
    rows = tables["mov"].lookup(torch.tensor([30, -4, 1 << 60, 31]))
    assert rows.tolist() == [[0.0, 1.0], [2.0, 3.0], [2.0, 3.0], [9.0, 9.0] if merge else [0.0, 0.0]]
    assert tables["uid"].lookup(torch.tensor([1])).tolist() == [[1.0, 2.0, 3.0]]
    with pytest.raises(FileExistsError):
        import_into_snapshot(WEIGHT, ids, "mov", like, tmp_path / "new")


def test_weights_that_do_not_fit_or_are_no_numbers(tmp_path):
    like = save(tmp_path / "old", 5)
    ids = IdMap(IDS, np.arange(3))
    with pytest.raises(ValueError, match="rows of 2 floats, table 'uid' of 3"):
        import_into_snapshot(WEIGHT, ids, "uid", like, tmp_path / "new")
    with pytest.raises(ValueError, match="no table 'nope'"):
        import_into_snapshot(WEIGHT, ids, "nope", like, tmp_path / "new")
    broken = WEIGHT.clone()
    broken[1, 1] = float("nan")
    with pytest.raises(ValueError, match="table 'mov': the value of id -4 in row 1, column 1 is nan"):
        import_into_snapshot(broken, ids, "mov", like, tmp_path / "new")
    assert not (tmp_path / "new").exists()
