"""A model starts from a checkpoint in an object store: all of it, once, or with an error that says what is there."""

import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from monolith.checkpoint import latest_state, list_snapshots
from monolith.checkpoint.format.manifest import FileEntry, read_manifest, write_manifest
from monolith.checkpoint.keep import SnapshotStore, fetched_checkpoint
from monolith.errors import CorruptFileError
from monolith.train.state import train_state
from tests.train.test_restore_options import names_in, rows_in, run


def store_of(folder: Path) -> str:
    """A store whose objects a test can change as files."""
    return f"file://{folder}"


def refused(tmp_path, store_url, error, **settings) -> str:
    """Start from the URL in vain; returns what is said, and nothing is left behind."""
    with pytest.raises(error) as told:
        run(tmp_path / "new", restore_dir=store_url, steps=1, **settings)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["owner.lock"]
    assert store_url in str(told.value)
    return str(told.value)


def test_a_model_starts_from_the_last_delta_without_its_place_in_the_data(tmp_path, store_url):
    run(tmp_path / "old", events=12, mirror_dir=store_url, save_checkpoints_steps=100, delta_every_steps=1)
    assert SnapshotStore(store_url).names()[-1] == "model.ckpt-1.delta-2"
    model, result = run(tmp_path / "new", restore_dir=store_url, events=40, steps=1)
    assert result.global_step == 4
    # 12 rows of before, and the first batch again, whose rows are there already.
    assert rows_in(tmp_path / "new" / "model.ckpt-4") == 12
    # Momentum 0.5 and a gradient of 1: steps of 1, 1.5, 1.75, 1.875.
    assert model.scale.item() == 1 + 1.5 + 1.75 + 1.875
    assert names_in(tmp_path / "new") == ["model.ckpt-3", "model.ckpt-4"]
    assert not (tmp_path / "new" / ".restore-from").exists()


def test_the_named_one_is_started_from_once_and_the_url_is_not_asked_again(tmp_path, store_url):
    run(tmp_path / "old", mirror_dir=store_url, save_checkpoints_steps=1, steps=4)
    settings = {"restore_dir": store_url, "restore_ckpt": "model.ckpt-2"}
    _, result = run(tmp_path / "new", steps=2, **settings)
    assert result.global_step == 4
    fsspec.filesystem("memory").rm(store_url.split("//")[1], recursive=True)
    _, result = run(tmp_path / "new", steps=1, **settings)
    assert result.global_step == 5  # not from the model.ckpt-2 that the first run has written
    assert names_in(tmp_path / "new") == ["model.ckpt-2", "model.ckpt-4", "model.ckpt-5"]


def test_dense_weights_of_another_model_can_be_left_there(tmp_path, store_url):
    run(tmp_path / "old", events=12, mirror_dir=store_url)
    for step, weight in [(1, 1.0), (2, 2.5)]:
        model, result = run(tmp_path / "new", restore_dir=store_url, clear_nn=True, steps=1)
        assert (result.global_step, model.scale.item()) == (step, weight)
        assert rows_in(latest_state(tmp_path / "new")) == 12


def test_the_copy_of_the_model_itself_comes_first(tmp_path, store_url):
    run(tmp_path / "other", mirror_dir=store_url, steps=1)
    own = store_of(tmp_path / "copies")
    run(tmp_path / "first", mirror_dir=own, steps=3)
    _, result = run(tmp_path / "second", mirror_dir=own, restore_dir=store_url, steps=1)
    assert result.global_step == 4


def test_a_place_without_checkpoints_says_what_it_has(tmp_path, store_url):
    assert "there is nothing" in refused(tmp_path, store_url, FileNotFoundError)
    run(tmp_path / "old", mirror_dir=store_url, steps=2)
    above = store_url.removesuffix("/model")
    assert "it has model, and none of it is a checkpoint" in refused(tmp_path, above, FileNotFoundError)
    text = refused(tmp_path, store_url, FileNotFoundError, restore_ckpt="model.ckpt-9")
    assert text == f"{store_url} has no checkpoint 'model.ckpt-9'; it has model.ckpt-0, model.ckpt-2"


def test_half_a_checkpoint_is_none(tmp_path):
    there = tmp_path / "there"
    run(there, steps=2)
    shutil.rmtree(there / "model.ckpt-0")
    (there / "model.ckpt-2" / "manifest.json").unlink()
    for settings in ({}, {"restore_ckpt": "model.ckpt-2"}):
        text = refused(tmp_path, store_of(there), FileNotFoundError, **settings)
        assert "it has no complete checkpoint; without a manifest.json: model.ckpt-2" in text


@pytest.mark.parametrize("damage", ["flipped", "missing", "outside"])
def test_a_damaged_one_is_refused(tmp_path, damage):
    there = tmp_path / "there"
    run(there, save_checkpoints_steps=1, steps=2)
    snapshot = there / "model.ckpt-2"
    if damage == "flipped":
        content = bytearray((snapshot / "dense.safetensors").read_bytes())
        content[-1] ^= 1
        (snapshot / "dense.safetensors").write_bytes(content)
    elif damage == "missing":
        (snapshot / "dense.safetensors").unlink()
    else:
        manifest = read_manifest(snapshot)
        write_manifest(snapshot, replace(manifest, files={"../../evil": FileEntry(bytes=1, crc32c=0)}))
    text = refused(tmp_path, store_of(there), CorruptFileError)
    assert f"{store_of(there)}/model.ckpt-2 cannot be fetched" in text
    assert "it has model.ckpt-0, model.ckpt-1, model.ckpt-2" in text
    assert {"flipped": "checksum", "missing": "dense.safetensors", "outside": "../../evil"}[damage] in text
    # The way out that the message shows.
    _, result = run(tmp_path / "new", restore_dir=store_of(there), restore_ckpt="model.ckpt-1", steps=1)
    assert result.global_step == 2


def test_the_newest_that_is_complete_is_taken_and_a_named_one_must_be(tmp_path):
    there = tmp_path / "there"
    run(there, save_checkpoints_steps=100, delta_every_steps=1, steps=4)
    assert latest_state(there).name == "model.ckpt-1.delta-3"
    shutil.rmtree(there / "model.ckpt-1.delta-2")
    text = refused(tmp_path, store_of(there), CorruptFileError, restore_ckpt="model.ckpt-1.delta-3")
    assert "/model.ckpt-1.delta-2 cannot be fetched" in text
    with pytest.warns(UserWarning, match=r"model\.ckpt-1\.delta-3 of file://.* what it builds on is not there"):
        _, result = run(tmp_path / "new", restore_dir=store_of(there), steps=1)
    assert result.global_step == 3
    for name in ("model.ckpt-0", "model.ckpt-1"):
        shutil.rmtree(there / name)
    shutil.rmtree(tmp_path / "new")
    with pytest.warns(UserWarning, match="what it builds on"):
        assert "has only deltas" in refused(tmp_path, store_of(there), CorruptFileError)


def test_a_delta_of_another_snapshot_is_refused(tmp_path):
    there = tmp_path / "there"
    settings = {"save_checkpoints_steps": 100, "delta_every_steps": 1}
    run(there, steps=2, **settings)
    run(tmp_path / "twin", steps=1, events=2, **settings)  # of the same name, with other rows
    shutil.rmtree(there / "model.ckpt-1")
    shutil.copytree(tmp_path / "twin" / "model.ckpt-1", there / "model.ckpt-1")
    text = refused(tmp_path, store_of(there), CorruptFileError)
    assert "broken at model.ckpt-1.delta-1: it builds on another model.ckpt-1" in text


def test_what_a_kill_left_is_nobodys_snapshot_and_goes_at_the_next_start(tmp_path, store_url, monkeypatch):
    run(tmp_path / "old", mirror_dir=store_url, steps=3)
    new = tmp_path / "new"

    def kill(path, **_):
        assert path.parent == new / ".restore-from"  # the same file system
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_state, "load_snapshot", kill)
        with pytest.raises(KeyboardInterrupt):
            run(new, restore_dir=store_url, steps=1)
    monkeypatch.undo()
    assert (new / ".restore-from" / "model.ckpt-3" / "manifest.json").is_file()
    assert list_snapshots(new) == []
    assert latest_state(new) is None
    _, result = run(new, steps=1)  # without the setting: begins anew
    assert result.global_step == 1
    assert not (new / ".restore-from").exists()


def test_a_copy_is_there_for_the_block_only(tmp_path, store_url):
    run(tmp_path / "old", mirror_dir=store_url, steps=2)
    (tmp_path / "new").mkdir()
    with fetched_checkpoint(store_url, tmp_path / "new", "elsewhere/model.ckpt-2") as path:
        assert rows_in(path) == 8
    assert list((tmp_path / "new").iterdir()) == []
