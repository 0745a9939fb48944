"""Snapshots: whole or not there at all, checked before they are believed."""

import json
import os
import re
import shutil
import warnings
from pathlib import Path

import pytest
import torch

import monolith as mono
from monolith.checkpoint import (
    claim_generation,
    clean_leftovers,
    latest_state,
    list_snapshots,
    load_snapshot,
    save_snapshot,
    set_aside_newer,
)
from monolith.checkpoint.format.manifest import FileEntry, Manifest, read_manifest, write_manifest
from monolith.data import Schema
from monolith.errors import CorruptFileError, PlanMismatchError
from monolith.model import admission_filters, make_plan, make_tables

SCHEMA = Schema.of(uid="int64", mov="int64")


class Model(mono.MonolithModel):
    def __init__(self, dim=2):
        super().__init__()
        self.dim = dim
        self.create_embedding_feature_column("mov", occurrence_threshold=2, filter_capacity=300)

    def model_fn(self, features, mode):
        pred = torch.cat(self.lookup_embedding_slice(["uid", "mov"], slice_dim=self.dim), dim=1)
        return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())


PLAN = make_plan(Model(), SCHEMA)
IDS = torch.tensor([3, 4, 5])


def make_filled_tables():
    tables = make_tables(PLAN)
    tables["uid"].apply_gradients(IDS, torch.randn(3, 2), time=100)
    tables["mov"].apply_gradients(IDS, torch.randn(3, 2), time=100)  # counted once each, no rows yet
    return tables


def save(model_dir, step, tables=None, **changes):
    arguments = dict(
        plan=PLAN,
        tables=tables or make_filled_tables(),
        dense={"weight": torch.tensor([1.5, float(step)])},
        stream={"0": step * 10},
        generation=4,
        epoch=step,
        extra={"note": "kept"},
    )
    return save_snapshot(model_dir, step, **{**arguments, **changes})


def test_everything_comes_back(tmp_path):
    tables, restored = make_filled_tables(), make_tables(PLAN)
    path = save(tmp_path, 7, tables, num_shards=3)
    assert path == tmp_path / "model.ckpt-7"
    assert sorted(one.name for one in (path / "tables").iterdir() if one.name.startswith("uid")) == [
        f"uid-0000{shard}-of-00003" for shard in range(3)
    ]
    snapshot = load_snapshot(path, plan=PLAN, tables=restored)
    assert (snapshot.step, snapshot.stream, snapshot.generation, snapshot.epoch) == (7, {"0": 70}, 4, 7)
    assert snapshot.extra == {"note": "kept"}
    assert snapshot.dense["weight"].tolist() == [1.5, 7.0]
    assert restored["uid"].lookup_entry(IDS) == tables["uid"].lookup_entry(IDS)
    assert all(restored["uid"].lookup_entry(IDS))


def test_filters_come_back(tmp_path):
    restored = make_tables(PLAN)
    load_snapshot(save(tmp_path, 1), plan=PLAN, tables=restored)
    # Threshold 2: ids 3 to 5 were seen once before the snapshot, 6 never.
    ids = torch.tensor([3, 6])
    admission = admission_filters(restored)["mov"]
    assert [admission.should_be_filtered(ids).tolist() for _ in range(2)] == [[True, True], [False, True]]


def test_rows_that_expired_are_kept(tmp_path):
    tables, restored = make_filled_tables(), make_tables(PLAN)
    century = 40_000 * 86_400
    tables["uid"].apply_gradients(torch.tensor([9]), torch.ones(1, 2), time=century)
    load_snapshot(save(tmp_path, 1, tables), plan=PLAN, tables=restored)
    assert len(restored["uid"]) == len(tables["uid"]) == 4


def files_of(path):
    return sorted(one for one in path.rglob("*") if one.is_file())


def flip(file, place):
    with open(file, "r+b") as opened:
        (byte,) = os.pread(opened.fileno(), 1, place)
        os.pwrite(opened.fileno(), bytes([byte ^ 1]), place)


def test_any_byte_of_a_manifest_that_is_flipped_is_noticed(tmp_path):
    path = save(tmp_path, 1)
    for place in range((path / "manifest.json").stat().st_size):
        flip(path / "manifest.json", place)
        with pytest.raises(CorruptFileError):
            read_manifest(path)
        flip(path / "manifest.json", place)
    assert read_manifest(path).step == 1


def test_a_manifest_with_one_other_number_is_noticed(tmp_path):
    path = save(tmp_path, 1)
    text = (path / "manifest.json").read_text()
    for place in [found.start() for found in re.finditer(r"[0-8](?=[0-9]*,?\n)", text)]:
        # It is JSON still, of the right fields and types.
        (path / "manifest.json").write_text(text[:place] + str(int(text[place]) + 1) + text[place + 1 :])
        with pytest.raises(CorruptFileError, match="its checksum is wrong|is not of format|of format"):
            read_manifest(path)


def test_a_damaged_snapshot_changes_no_table_and_the_one_before_is_used(tmp_path):
    good, bad = save(tmp_path, 1), save(tmp_path, 2)
    assert latest_state(tmp_path) == bad
    for file in files_of(bad):
        for place in {0, file.stat().st_size // 2, file.stat().st_size - 1}:
            flip(file, place)
            with pytest.warns(UserWarning, match="model.ckpt-2 is not used"):
                assert latest_state(tmp_path) == good, (file, place)
            tables = make_filled_tables()
            before = tables["uid"].lookup(IDS)
            with pytest.raises((CorruptFileError, FileNotFoundError)):
                load_snapshot(bad, plan=PLAN, tables=tables)
            assert torch.equal(tables["uid"].lookup(IDS), before)
            unused = make_tables(PLAN)
            with pytest.raises((CorruptFileError, FileNotFoundError)):
                load_snapshot(bad, plan=PLAN, tables=unused)
            assert all(table.is_unused for table in unused.tables.values()), (file, place)
            flip(file, place)
    assert latest_state(tmp_path) == bad


def test_a_whole_table_file_of_another_snapshot_is_noticed_by_unused_tables_too(tmp_path):
    one, two = save(tmp_path, 1), save(tmp_path, 2)
    name = "tables/uid-00000-of-00001"
    assert (one / name).stat().st_size == (two / name).stat().st_size
    (two / name).write_bytes((one / name).read_bytes())
    for tables in (make_tables(PLAN), make_filled_tables()):
        before = tables["uid"].lookup(IDS)
        with pytest.raises(CorruptFileError, match=r"uid-00000-of-00001 is damaged: .*not the one in its manifest"):
            load_snapshot(two, plan=PLAN, tables=tables)
        assert torch.equal(tables["uid"].lookup(IDS), before)
    unused = make_tables(PLAN)
    load_snapshot(one, plan=PLAN, tables=unused)
    assert not unused["uid"].is_unused


def test_unused_tables_are_empty_again_when_a_filter_cannot_be_read(tmp_path, monkeypatch):
    path, unused = save(tmp_path, 1), make_tables(PLAN)

    def fail(self: object, *_: object) -> None:
        raise ValueError("no such filter")

    monkeypatch.setattr(type(admission_filters(unused)["mov"]), "restore", fail)
    with pytest.raises(CorruptFileError, match="cannot be restored: no such filter"):
        load_snapshot(path, plan=PLAN, tables=unused)
    assert all(table.is_unused for table in unused.tables.values())


def test_a_missing_or_shortened_file_is_noticed(tmp_path):
    good, bad = save(tmp_path, 1), save(tmp_path, 2)
    for file in files_of(bad):
        content = file.read_bytes()
        for change in (lambda file=file: file.unlink(), lambda file=file: file.write_bytes(file.read_bytes()[:-1])):
            change()
            with pytest.warns(UserWarning, match="is not used"):
                assert latest_state(tmp_path) == good, file
            file.write_bytes(content)


def test_a_snapshot_or_delta_without_manifest_never_existed(tmp_path):
    good, bad = save(tmp_path, 1), save(tmp_path, 2)
    (bad / "manifest.json").unlink()
    (tmp_path / "model.ckpt-1.delta-1").mkdir()
    (tmp_path / "model.ckpt-3.tmp").mkdir()
    with pytest.warns(UserWarning, match="not written completely"):
        assert latest_state(tmp_path) == good
    assert sorted(one.name for one in clean_leftovers(tmp_path)) == [
        "model.ckpt-1.delta-1",
        "model.ckpt-2",
        "model.ckpt-3.tmp",
    ]
    assert list(tmp_path.iterdir()) == [good]


def test_a_manifest_that_points_outside_is_refused(tmp_path):
    path = save(tmp_path, 1)
    (tmp_path / "secret").write_text("x")

    manifest = read_manifest(path)
    files = {"../secret": FileEntry(bytes=1, crc32c=0)}
    write_manifest(path, Manifest(**{**{n: getattr(manifest, n) for n in manifest.__slots__}, "files": files}))
    with pytest.raises(CorruptFileError, match="outside the snapshot"):
        load_snapshot(path, plan=PLAN, tables=make_tables(PLAN))


def test_an_empty_folder_has_no_snapshot_and_says_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert latest_state(tmp_path) is None
        assert latest_state(tmp_path / "absent") is None


def test_steps_are_ordered_as_numbers_and_other_names_are_left_alone(tmp_path):
    for step in (9, 10, 2):
        save(tmp_path, step)
    (tmp_path / "model.ckpt-11.damaged").mkdir()
    (tmp_path / "model.ckpt-12").write_text("a file")
    assert [path.name for path in list_snapshots(tmp_path)] == ["model.ckpt-2", "model.ckpt-9", "model.ckpt-10"]
    assert latest_state(tmp_path).name == "model.ckpt-10"


def test_another_plan_is_refused_and_the_difference_named(tmp_path):
    path = save(tmp_path, 1)
    plan = make_plan(Model(dim=3), SCHEMA)
    with pytest.raises(PlanMismatchError, match=r"uid\]\.slices\[vec\]\.segment\.dimSize: 2 there, 3 here"):
        load_snapshot(path, plan=plan, tables=make_tables(plan))


def test_a_snapshot_of_the_same_step_replaces_the_damaged_one(tmp_path):
    path = save(tmp_path, 1)
    (path / "stream.json").write_text("garbage")
    save(tmp_path, 1, stream={"0": 99})
    assert load_snapshot(path, plan=PLAN, tables=make_tables(PLAN)).stream == {"0": 99}
    assert [one.name for one in tmp_path.iterdir()] == ["model.ckpt-1"]


def test_damaged_snapshots_are_set_aside_but_never_all(tmp_path):
    good, bad = save(tmp_path, 1), save(tmp_path, 2)
    (bad / "stream.json").write_text("garbage")
    assert set_aside_newer(tmp_path, good) == [tmp_path / "model.ckpt-2.damaged"]
    assert list_snapshots(tmp_path) == [good]
    with pytest.raises(CorruptFileError, match="none of the 1 snapshots"):
        set_aside_newer(tmp_path, None)
    shutil.rmtree(good)
    assert set_aside_newer(tmp_path, None) == []


def test_generations_never_come_twice(tmp_path):
    assert [claim_generation(tmp_path, 0) for _ in range(3)] == [0, 1, 2]
    assert claim_generation(tmp_path, 9) == 9
    assert claim_generation(tmp_path, 4) == 10
    (tmp_path / "generation").write_text("ten")
    with pytest.raises(CorruptFileError, match="must hold a number"):
        claim_generation(tmp_path, 0)


def test_the_manifest_is_plain_json_with_every_file(tmp_path):
    path = save(tmp_path, 1)
    manifest = json.loads((path / "manifest.json").read_bytes())
    names = {one.relative_to(path).as_posix() for one in files_of(path)} - {"manifest.json"}
    assert set(manifest["files"]) == names
    assert {"dense.safetensors", "stream.json", "tables/uid-00000-of-00001"} <= names
    assert all(manifest["files"][name]["bytes"] == Path(path / name).stat().st_size for name in names)
