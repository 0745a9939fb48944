"""The text file `monolith_checkpoint`, and starting from another folder's checkpoint."""

import logging
import threading

import pytest

from monolith.checkpoint.format.state_files import (
    SaveHelper,
    add_exempt_paths,
    check_exempt_names,
    copy_checkpoint_pointer,
    exempt_checkpoints,
    get_checkpoint_state,
    get_monolith_checkpoint_state,
    note_save,
    wait_for_checkpoint_pointer,
)
from monolith.protos.monolith_checkpoint_state_pb2 import MonolithCheckpointState
from tests.checkpoint.made_snapshots import save
from tests.patience import PATIENCE_SECONDS


def test_the_file_is_the_originals_text(tmp_path):
    add_exempt_paths(tmp_path, ["model.ckpt-10", str(tmp_path / "model.ckpt-20"), "/other/model.ckpt-1"])
    note_save(tmp_path, 1_700_000_000)
    assert (tmp_path / "monolith_checkpoint").read_text() == (
        'exempt_model_checkpoint_paths: "model.ckpt-10"\n'
        'exempt_model_checkpoint_paths: "model.ckpt-20"\n'
        'exempt_model_checkpoint_paths: "/other/model.ckpt-1"\n'
        "last_checkpoint_save_timestamp: 1700000000\n"
        "builtin_hash_table_type: MULTI_CUCKOO_HASH_MAP\n"
    )
    assert SaveHelper(tmp_path / "model.ckpt").last_save_time() == 1_700_000_000


def test_the_message_has_the_originals_names_and_numbers():
    descriptor = MonolithCheckpointState.DESCRIPTOR
    assert descriptor.full_name == "monolith.native_training.MonolithCheckpointState"
    assert {one.name: one.number for one in descriptor.fields} == {
        "exempt_model_checkpoint_paths": 1,
        "last_checkpoint_save_timestamp": 2,
        "builtin_hash_table_type": 3,
    }
    assert dict(MonolithCheckpointState.HashTableType.items()) == {
        "UNKNOWN": 0,
        "CUCKOO_HASH_MAP": 1,
        "MULTI_CUCKOO_HASH_MAP": 2,
    }


def test_paths_that_lead_nowhere_are_left_out_on_request(tmp_path):
    path = save(tmp_path, 10)
    (tmp_path / "tf-5.index").write_text("")
    add_exempt_paths(tmp_path, ["model.ckpt-10", "model.ckpt-99", "tf-5"])
    raw = get_monolith_checkpoint_state(tmp_path)
    assert list(raw.exempt_model_checkpoint_paths) == ["model.ckpt-10", "model.ckpt-99", "tf-5"]
    valid = get_monolith_checkpoint_state(tmp_path, remove_invalid_path=True)
    assert list(valid.exempt_model_checkpoint_paths) == [str(path), str(tmp_path / "tf-5")]


@pytest.mark.parametrize("text", [None, "builtin_hash_table_type: 7 {", "no_such_field: 1"])
def test_what_cannot_be_read_is_none_with_a_warning(tmp_path, caplog, text):
    if text is not None:
        (tmp_path / "mine").write_text(text)
    with caplog.at_level(logging.WARNING):
        assert get_monolith_checkpoint_state(tmp_path, "mine") is None
    assert "is not used" in caplog.text


def test_exempt_names_must_exist(tmp_path):
    save(tmp_path, 10)
    check_exempt_names(tmp_path, ["model.ckpt-10"])
    with pytest.raises(ValueError, match=r"no checkpoint model\.ckpt-11 .* it has model\.ckpt-10"):
        check_exempt_names(tmp_path, ["model.ckpt-11"])


def listed_elsewhere(folder):
    folder.mkdir()
    paths = [str(folder / f"model.ckpt-{step}") for step in (10, 20, 30, 40)]
    lines = [f'model_checkpoint_path: "{paths[-1]}"'] + [f'all_model_checkpoint_paths: "{one}"' for one in paths]
    (folder / "checkpoint").write_text("\n".join(lines))
    return paths


def test_a_model_starts_from_a_named_checkpoint_of_another_folder(tmp_path):
    paths = listed_elsewhere(tmp_path / "old")
    assert copy_checkpoint_pointer(tmp_path / "old", tmp_path / "new", "model.ckpt-30") == paths[2]
    assert (tmp_path / "new" / "restore_ckpt").exists()
    state = get_checkpoint_state(tmp_path / "new", restore_ckpt="model.ckpt-30")
    assert state.model_checkpoint_path == paths[2]
    assert list(state.all_model_checkpoint_paths) == [paths[2]]
    exempt = get_monolith_checkpoint_state(tmp_path / "new").exempt_model_checkpoint_paths
    assert list(exempt) == [paths[2]]


def test_the_newest_is_taken_if_the_named_one_is_not_there(tmp_path, caplog):
    paths = listed_elsewhere(tmp_path / "old")
    with caplog.at_level(logging.WARNING):
        assert copy_checkpoint_pointer(tmp_path / "old", tmp_path / "new", "model.ckpt-35") == paths[3]
    assert "model.ckpt-35 is not in" in caplog.text


def test_a_pointer_that_is_there_stays(tmp_path):
    paths = listed_elsewhere(tmp_path / "old")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-50"\n')
    copy_checkpoint_pointer(tmp_path / "old", tmp_path / "new")
    assert get_checkpoint_state(tmp_path / "new").model_checkpoint_path.endswith("new/model.ckpt-50")
    assert list(get_monolith_checkpoint_state(tmp_path / "new").exempt_model_checkpoint_paths) == [paths[3]]


def test_a_folder_of_snapshots_needs_no_file_to_be_pointed_to(tmp_path, monkeypatch):
    path = save(tmp_path / "old", 7)
    monkeypatch.chdir(tmp_path)
    assert copy_checkpoint_pointer("old", "new") == str(path)
    assert exempt_checkpoints("new") == [str(path)]


def test_nothing_to_point_to(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        assert copy_checkpoint_pointer(tmp_path / "absent", tmp_path / "new") is None
    assert "no checkpoint in restore_dir" in caplog.text
    assert not (tmp_path / "new").exists()


def test_others_wait_for_the_chief(tmp_path):
    listed_elsewhere(tmp_path / "old")
    done = threading.Event()

    def wait():
        wait_for_checkpoint_pointer(tmp_path / "new", timeout_seconds=60, poll_seconds=0.01)
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    copy_checkpoint_pointer(tmp_path / "old", tmp_path / "new")
    thread.join(PATIENCE_SECONDS)
    assert done.is_set()
    with pytest.raises(TimeoutError, match="did not appear"):
        wait_for_checkpoint_pointer(tmp_path / "other", timeout_seconds=0)
