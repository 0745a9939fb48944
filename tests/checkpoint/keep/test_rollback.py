"""Going back to an older snapshot, and starting from a named one."""

import pytest

from monolith.checkpoint import ModelDirOwner, latest_state
from monolith.checkpoint.format.state_files import add_exempt_paths, copy_checkpoint_pointer, get_checkpoint_state
from monolith.checkpoint.keep import choose_snapshot, remove_one, roll_back
from monolith.errors import CorruptFileError, ModelDirInUseError
from tests.checkpoint.made_snapshots import names_in, save


@pytest.fixture
def folder(tmp_path):
    for step in (1, 2, 10):
        save(tmp_path, step)
    return tmp_path


def newest(folder):
    return get_checkpoint_state(folder).model_checkpoint_path.rpartition("/")[2]


def test_newer_ones_are_set_aside_and_come_back(folder):
    (folder / "model.ckpt-2.delta-1").mkdir()
    assert [path.name for path in roll_back(folder / "model.ckpt-2")] == [
        "model.ckpt-10.rolled-back",
        "model.ckpt-2.delta-1.rolled-back",
    ]
    assert latest_state(folder).name == newest(folder) == "model.ckpt-2"
    save(folder, 10)
    roll_back(folder / "model.ckpt-2")
    assert "model.ckpt-10.rolled-back-2" in names_in(folder)  # the first is not overwritten
    (folder / "model.ckpt-10.rolled-back").rename(folder / "model.ckpt-10")
    assert latest_state(folder).name == "model.ckpt-10"
    assert roll_back(folder / "model.ckpt-10") == []


def test_a_damaged_one_is_not_gone_back_to(folder):
    (folder / "model.ckpt-2" / "stream.json").write_text("x")
    before = names_in(folder)
    with pytest.raises(CorruptFileError, match="stream.json"):
        roll_back(folder / "model.ckpt-2")
    assert names_in(folder) == before


def test_not_while_somebody_trains(folder):
    with ModelDirOwner(folder):
        for change in (roll_back, remove_one):
            with pytest.raises(ModelDirInUseError):
                change(folder / "model.ckpt-1")
    assert names_in(folder) == ["model.ckpt-1", "model.ckpt-10", "model.ckpt-2"]


def test_removing(folder):
    add_exempt_paths(folder, ["model.ckpt-1"])
    for name, words in (("model.ckpt-10", "the newest"), ("model.ckpt-1", "exempt")):
        with pytest.raises(ValueError, match=words):
            remove_one(folder / name)
    remove_one(folder / "model.ckpt-2")
    remove_one(folder / "model.ckpt-10", force=True)
    assert names_in(folder) == ["model.ckpt-1"]
    assert newest(folder) == "model.ckpt-1"


def test_what_another_needs_is_not_removed_even_by_force(folder):
    save(folder, 11, extra={"base": "model.ckpt-2"})
    with pytest.raises(ValueError, match=r"needed by .*model\.ckpt-11"):
        remove_one(folder / "model.ckpt-2", force=True)


def test_training_starts_from_the_named_one_once_and_sets_newer_ones_aside(folder):
    assert choose_snapshot(folder, restore_ckpt="model.ckpt-2", mode="eval").name == "model.ckpt-2"
    assert names_in(folder) == ["model.ckpt-1", "model.ckpt-10", "model.ckpt-2"]
    assert choose_snapshot(folder, restore_ckpt="model.ckpt-2").name == "model.ckpt-2"
    assert names_in(folder) == ["model.ckpt-1", "model.ckpt-10.rolled-back", "model.ckpt-2"]
    save(folder, 3)
    assert choose_snapshot(folder, restore_ckpt="model.ckpt-2").name == "model.ckpt-3"


def test_a_named_one_that_is_damaged_is_an_error_and_stays_wanted(folder):
    (folder / "model.ckpt-2" / "stream.json").write_text("x")
    for _ in range(2):
        with pytest.raises(CorruptFileError):
            choose_snapshot(folder, restore_ckpt="model.ckpt-2")
    assert names_in(folder) == ["model.ckpt-1", "model.ckpt-10", "model.ckpt-2"]


def test_without_a_name_or_with_an_unknown_one_the_newest_is_taken(folder, tmp_path):
    assert choose_snapshot(folder).name == "model.ckpt-10"
    assert choose_snapshot(folder, restore_ckpt="model.ckpt-7").name == "model.ckpt-10"
    assert choose_snapshot(tmp_path / "absent") is None


def test_an_empty_folder_starts_from_where_its_pointer_leads(folder, tmp_path):
    new = tmp_path / "new"
    copy_checkpoint_pointer(folder, new, "model.ckpt-2")
    assert choose_snapshot(new) == folder / "model.ckpt-2"
    assert choose_snapshot(new, restore_ckpt="model.ckpt-2") == folder / "model.ckpt-2"
    save(new, 4)
    assert choose_snapshot(new, restore_ckpt="model.ckpt-2") == new / "model.ckpt-4"
