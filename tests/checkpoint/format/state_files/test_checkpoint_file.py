"""The text file `checkpoint`: the original's form, derived from the folder, alive after a move."""

import logging

import pytest
from google.protobuf import text_format

from monolith.checkpoint.format.state_files import (
    SaveHelper,
    get_checkpoint_state,
    isabs,
    make_checkpoint_state,
    recover_last_checkpoints,
    refresh_checkpoint_file,
    restore_choice,
    write_checkpoint_file,
)
from monolith.errors import CorruptFileError
from monolith.native_training.runner_utils import gen_get_checkpoint_state
from monolith.native_training.save_utils import get_latest_checkpoint_state
from monolith.protos.checkpoint_state_pb2 import CheckpointState
from tests.checkpoint.made_snapshots import save

THREE = 'model_checkpoint_path: "model.ckpt-30"\n' + "".join(
    f'all_model_checkpoint_paths: "model.ckpt-{step}"\n' for step in (10, 20, 30)
)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(restore_choice, "RETRY_SECONDS", 0.0)


def test_hdfs_and_other_urls_are_absolute():
    assert [isabs(path) for path in ("hdfs:/a", "hdfs://host/a", "/a", "a", "a/hdfs:/b")] == [True] * 3 + [False] * 2


def test_the_file_is_the_originals_text(tmp_path):
    save(tmp_path, 10, time=100)
    save(tmp_path, 300, time=200.5)
    save(tmp_path, 20, time=150)
    refresh_checkpoint_file(tmp_path)
    assert (tmp_path / "checkpoint").read_text() == (
        'model_checkpoint_path: "model.ckpt-300"\n'
        'all_model_checkpoint_paths: "model.ckpt-10"\n'
        'all_model_checkpoint_paths: "model.ckpt-20"\n'
        'all_model_checkpoint_paths: "model.ckpt-300"\n'
        "all_model_checkpoint_timestamps: 100.0\n"
        "all_model_checkpoint_timestamps: 150.0\n"
        "all_model_checkpoint_timestamps: 200.5\n"
    )


def test_relative_paths_survive_a_move_of_the_folder(tmp_path):
    save(tmp_path / "first", 10)
    refresh_checkpoint_file(tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "second")
    state = get_checkpoint_state(tmp_path / "second")
    assert state.model_checkpoint_path == str(tmp_path / "second" / "model.ckpt-10")
    assert list(state.all_model_checkpoint_paths) == [state.model_checkpoint_path]


def test_the_folder_is_the_truth_and_other_folders_stay_listed(tmp_path):
    old = save(tmp_path / "old", 5)
    save(tmp_path / "new", 10)
    text = f'model_checkpoint_path: "{old}"\nall_model_checkpoint_paths: "{old}"\n'
    gone = f'all_model_checkpoint_paths: "model.ckpt-9"\nall_model_checkpoint_paths: "{tmp_path}/gone/model.ckpt-1"\n'
    (tmp_path / "new" / "checkpoint").write_text(text + gone)
    refresh_checkpoint_file(tmp_path / "new")
    state = get_checkpoint_state(tmp_path / "new")
    assert list(state.all_model_checkpoint_paths) == [str(old), str(tmp_path / "new" / "model.ckpt-10")]
    assert state.model_checkpoint_path.endswith("new/model.ckpt-10")


def test_a_folder_without_snapshots_keeps_the_file_it_has(tmp_path):
    (tmp_path / "checkpoint").write_text(THREE)
    assert refresh_checkpoint_file(tmp_path) is None
    assert (tmp_path / "checkpoint").read_text() == THREE


def test_no_file_is_no_state(tmp_path):
    assert get_checkpoint_state(tmp_path) is None


def test_what_cannot_be_read_five_times_is_an_error(tmp_path, caplog):
    (tmp_path / "checkpoint").write_text("model_checkpoint_path: {")
    with caplog.at_level(logging.WARNING), pytest.raises(CorruptFileError, match="read ckpt error!"):
        get_checkpoint_state(tmp_path)
    assert len(caplog.records) == 5


def test_a_file_that_becomes_whole_is_read(tmp_path, monkeypatch):
    (tmp_path / "checkpoint").write_text("model_checkpoint_pa")
    monkeypatch.setattr(restore_choice.time, "sleep", lambda _: (tmp_path / "checkpoint").write_text(THREE))
    assert get_checkpoint_state(tmp_path).model_checkpoint_path.endswith("model.ckpt-30")


def test_bytes_that_are_no_text_or_too_many_are_refused(tmp_path, monkeypatch):
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorruptFileError, match="read ckpt error!"):
        get_checkpoint_state(tmp_path)
    (tmp_path / "checkpoint").write_text("# " + "x" * 100 + "\n" + THREE)
    monkeypatch.setattr("monolith.checkpoint.format.state_files.text_files.MAX_TEXT_BYTES", 100)
    with pytest.raises(CorruptFileError, match="read ckpt error!"):
        get_checkpoint_state(tmp_path)


def test_a_state_without_newest_is_invalid(tmp_path):
    (tmp_path / "checkpoint").write_text('all_model_checkpoint_paths: "a"\n')
    with pytest.raises(CorruptFileError, match="no model_checkpoint_path"):
        get_checkpoint_state(tmp_path)


def test_training_starts_from_the_named_one_once(tmp_path):
    (tmp_path / "checkpoint").write_text(THREE)
    read = gen_get_checkpoint_state("/elsewhere/model.ckpt-10", "train")
    assert read(tmp_path).model_checkpoint_path == str(tmp_path / "model.ckpt-10")
    assert (tmp_path / "restore_ckpt").exists()
    written = text_format.Parse((tmp_path / "checkpoint").read_text(), CheckpointState())
    assert written.model_checkpoint_path == "model.ckpt-10"
    assert len(written.all_model_checkpoint_paths) == 3
    (tmp_path / "checkpoint").write_text(THREE)  # training went on
    assert read(tmp_path).model_checkpoint_path == str(tmp_path / "model.ckpt-30")


def test_evaluation_always_takes_the_named_one_and_writes_nothing(tmp_path):
    (tmp_path / "checkpoint").write_text(THREE)
    for _ in range(2):
        state = get_checkpoint_state(tmp_path, restore_ckpt="model.ckpt-20", mode="eval")
        assert state.model_checkpoint_path == str(tmp_path / "model.ckpt-20")
    assert (tmp_path / "checkpoint").read_text() == THREE
    assert not (tmp_path / "restore_ckpt").exists()


@pytest.mark.parametrize(("name", "words"), [("model.ckpt-40", "is not among"), ("model.ckpt-30", "newest anyway")])
def test_a_name_without_effect_is_warned_of(tmp_path, caplog, name, words):
    (tmp_path / "checkpoint").write_text(THREE)
    with caplog.at_level(logging.WARNING):
        state = get_checkpoint_state(tmp_path, restore_ckpt=name)
    assert state.model_checkpoint_path == str(tmp_path / "model.ckpt-30")
    assert words in caplog.text
    # A name that is not there may appear later: only what was taken leaves the marker.
    assert (tmp_path / "restore_ckpt").exists() is (name == "model.ckpt-30")


def test_another_file_name_is_never_overridden(tmp_path):
    (tmp_path / "other").write_text(THREE)
    state = get_checkpoint_state(tmp_path, "other", restore_ckpt="model.ckpt-10", mode="eval")
    assert state.model_checkpoint_path.endswith("model.ckpt-30")


def test_the_latest_state_is_read_again_when_the_step_is_higher(tmp_path):
    assert get_latest_checkpoint_state(tmp_path, 1) is None
    (tmp_path / "checkpoint").write_text(THREE)
    # None was cached, which does not count.
    assert get_latest_checkpoint_state(tmp_path, 1).model_checkpoint_path.endswith("-30")
    (tmp_path / "checkpoint").write_text(THREE.replace('path: "model.ckpt-30"\n', 'path: "model.ckpt-10"\n', 1))
    assert get_latest_checkpoint_state(tmp_path, 1).model_checkpoint_path.endswith("-30")
    assert get_latest_checkpoint_state(tmp_path, 2).model_checkpoint_path.endswith("-10")


def test_names_of_checkpoints(tmp_path):
    names = SaveHelper(tmp_path / "model.ckpt")
    assert names.get_existing_checkpoint_steps() == set()
    for step in (10, 20, 300):
        save(tmp_path, step)
    (tmp_path / "model.ckpt-40").mkdir()  # without manifest it never existed
    assert names.get_existing_checkpoint_steps() == {10, 20, 300}
    assert names.get_ckpt_prefix(10) == str(tmp_path / "model.ckpt-10")
    assert names.get_ckpt_asset_dir("a/model.ckpt-10") == "a/model.ckpt-10.assets/"
    assert [names.get_global_step_value(one) for one in ("a-b/model.ckpt-10", "model.ckpt", "a-b")] == [10, 0, 0]
    assert names.last_save_time() is None


def test_lost_checkpoints_are_not_recovered(tmp_path):
    first, second = (str(save(tmp_path, step, time=float(step))) for step in (1, 2))
    assert recover_last_checkpoints([first, second]) == [(first, 1.0), (second, 2.0)]
    (tmp_path / "model.ckpt-1").rename(tmp_path / "away")
    assert recover_last_checkpoints([first, second]) == [(second, 2.0)]


def test_there_is_a_time_for_each_or_for_none(tmp_path):
    with pytest.raises(ValueError, match="1 for 2"):
        make_checkpoint_state(tmp_path, "b", ["a"], timestamps=[1.0])


def test_remote_folders(tmp_path):
    state = make_checkpoint_state("memory://models/a", "memory://models/a/model.ckpt-3")
    write_checkpoint_file("memory://models/a", state)
    assert get_checkpoint_state("memory://models/a").model_checkpoint_path == "memory://models/a/model.ckpt-3"
