"""Versions whose rows are in folders of their own: one per shard, and one that decides whether they exist."""

import json
import os
import shutil

import numpy as np
import pytest

from monolith.errors import CorruptFileError
from monolith.export import import_saved_model, load_export, load_newest_export, newest_export, next_version
from monolith.export.kept.retention import keep_newest, remove_unnamed_parts
from monolith.export.versions import complete_versions, remove_unfinished
from monolith.export.write import RowsOfVersion
from tests.export.crafted import rewrite
from tests.export.movie import eager, export, request, trained


def folders(base):
    return sorted(path.relative_to(base).as_posix() for path in base.glob("*/*") if path.is_dir())


def predicted(path):
    return load_export(path).predict(request(50))["pred"]


@pytest.fixture
def base(tmp_path):
    export(tmp_path, 1, seed=1, num_shards=3)
    return tmp_path


def test_each_shard_has_its_rows_in_its_own_folder(base):
    assert folders(base) == ["entry/1", "ps_0/1", "ps_1/1", "ps_2/1"]
    assert sorted(path.name for path in (base / "entry" / "1").iterdir()) == [
        "dense.onnx",
        "dense.safetensors",
        "model.json",
        "warmup.jsonl",
    ]
    for shard in range(3):
        names = sorted(path.name for path in (base / f"ps_{shard}" / "1" / "tables").iterdir())
        assert names == [f"mov-0000{shard}-of-00003", f"uid-0000{shard}-of-00003"]
    shards = json.loads((base / "entry" / "1" / "model.json").read_text())["shards"]
    assert [one["folder"] for one in shards] == ["ps_0/1", "ps_1/1", "ps_2/1"]
    assert sum(one["num_rows"]["uid"] for one in shards) == 200 and all(one["num_rows"]["uid"] for one in shards)


def test_one_process_reads_all_parts_and_answers_as_from_one_folder(base, tmp_path):
    alone = export(tmp_path / "alone", 1, seed=1)
    assert newest_export(base) == base / "entry" / "1"
    np.testing.assert_array_equal(predicted(newest_export(base)), predicted(alone))
    np.testing.assert_allclose(predicted(alone), eager(*trained(1), request(50)), rtol=0, atol=1e-6)
    with import_saved_model(base, output_name=None) as infer:
        np.testing.assert_array_equal(infer(request(50))["pred"], predicted(alone))


def test_without_its_model_file_a_version_does_not_exist(base):
    export(base, 2, seed=2, num_shards=3)
    (base / "entry" / "2" / "model.json").unlink()
    assert complete_versions(base) == [1] and next_version(base) == 3
    assert load_newest_export(base)[0].version == 1


def test_a_failed_export_leaves_nothing(base):
    before = folders(base)

    def fail(*_):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        export(base, 2, num_shards=3, progress=fail)
    assert folders(base) == before
    with pytest.raises(FileExistsError, match="export version 1 is already in"):
        export(base, 1, num_shards=3)
    with pytest.raises(FileExistsError, match="export version 1 is already in"):
        export(base, 1)


@pytest.mark.parametrize("harm", ["damaged", "missing", "link"])
def test_a_version_with_a_bad_part_is_skipped(base, harm):
    path = export(base, 2, seed=2, num_shards=3)
    file = base / "ps_1" / "2" / "tables" / "uid-00001-of-00003"
    if harm == "damaged":
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif harm == "missing":
        shutil.rmtree(base / "ps_1" / "2")
    else:
        os.replace(file, base / "elsewhere")
        file.symlink_to(base / "elsewhere")
    with pytest.raises(CorruptFileError, match="ps_1/2"):
        load_export(path)
    assert load_newest_export(base)[0].version == 1


@pytest.mark.parametrize("folder", ["../1", "ps_1/../../1", "/ps_0/1", "ps_1/1", "ps_0/01", "ps_0", 3])
def test_parts_outside_the_base_are_refused(base, folder):
    path = base / "entry" / "1"
    rewrite(path, lambda fields: fields["shards"][0].update(folder=folder))
    with pytest.raises(CorruptFileError, match="shard 0 cannot be in|must be a text"):
        load_export(path)


def test_a_version_of_dense_weights_alone_shares_the_rows_of_another(base):
    first = newest_export(base)
    model, plan, _ = trained(7)
    shared = {"model": model, "plan": plan, "tables": RowsOfVersion(first), "generation": 1, "sequence": 9}
    path = export(base, 2, **shared)
    assert folders(base) == ["entry/1", "entry/2", "ps_0/1", "ps_1/1", "ps_2/1"]
    np.testing.assert_allclose(predicted(path), eager(model, plan, trained(1)[2], request(50)), rtol=0, atol=1e-6)
    assert load_export(path).sequence == load_export(first).sequence == 0, "deltas since those rows are still to come"
    keep_newest(base, 1)
    assert folders(base) == ["entry/2", "ps_0/1", "ps_1/1", "ps_2/1"], "its rows stay"
    export(base, 3, num_shards=3)
    keep_newest(base, 1)
    assert folders(base) == ["entry/3", "ps_0/3", "ps_1/3", "ps_2/3"]


def test_a_new_generation_asks_for_all_deltas_of_shared_rows(base):
    assert load_export(export(base, 2, tables=RowsOfVersion(newest_export(base)), generation=2)).sequence == 0
    path = export(base, 3, num_shards=3, generation=2, sequence=5)
    assert load_export(export(base, 4, tables=RowsOfVersion(path), generation=2, sequence=8)).sequence == 5
    assert load_export(export(base, 5, tables=RowsOfVersion(path), generation=3, sequence=8)).sequence == 0


def test_rows_of_a_version_of_one_folder_cannot_be_shared(tmp_path):
    with pytest.raises(ValueError, match="Only DISTRIBUTED mode is allowed when dense_only=True"):
        export(tmp_path, 2, tables=RowsOfVersion(export(tmp_path, 1)))
    assert complete_versions(tmp_path) == [1] and remove_unfinished(tmp_path) == []


def test_what_killed_writers_left_is_removed(base):
    for name in ("entry/2.tmp", "ps_0/2", "ps_1/2.tmp"):
        (base / name).mkdir()
    assert next_version(base) == 3
    assert sorted(remove_unfinished(base)) == ["entry/2.tmp", "ps_1/2.tmp"]
    assert remove_unnamed_parts(base) == ["ps_0/2"]
    assert folders(base) == ["entry/1", "ps_0/1", "ps_1/1", "ps_2/1"]
