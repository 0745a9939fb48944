"""A full disk, a folder that cannot be written, a second trainer, a later release: clear words, and nothing is lost."""

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from monolith.checkpoint import (
    ModelDirOwner,
    claim_generation,
    clean_leftovers,
    compact,
    latest_state,
    load_snapshot,
    set_aside_newer,
)
from monolith.checkpoint.format.manifest import Manifest, write_manifest
from monolith.checkpoint.save import frozen_state
from monolith.errors import FencedError, ModelDirInUseError, NewerFormatError
from monolith.model import make_tables
from tests.checkpoint.forked import in_child
from tests.checkpoint.made_snapshots import rewrite_manifest
from tests.checkpoint.small_state import PLAN, State, content_of, rows_of


def trained(num_steps: int = 4) -> State:
    state = State()
    state.train(num_steps)
    return state


def check_restores(path: Path, state: State) -> None:
    tables = make_tables(PLAN)
    load_snapshot(path, plan=PLAN, tables=tables)
    assert rows_of(tables) == rows_of(state.tables)


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A disk of 400 KiB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("mount") else None
    if done is None or done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted: {done.stderr.strip() if done else 'there is no mount'}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_costs_the_new_checkpoint_alone(small_disk):
    state = trained()
    first = state.freeze().write_snapshot(small_disk / "model")
    before = content_of(first)
    room = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(bytes(room.f_bavail * room.f_bsize - 50_000))
    trackers = state.track()
    state.train(2)
    with pytest.raises(OSError, match="model.ckpt-6 cannot be written: No space left.*nothing.*lost: free") as raised:
        state.freeze(trackers=trackers).write_snapshot(small_disk / "model", num_shards=8)
    assert raised.value.errno == errno.ENOSPC
    assert [one.name for one in (small_disk / "model").iterdir()] == ["model.ckpt-4"]
    assert content_of(first) == before
    (small_disk / "ballast").unlink()
    # Nothing is held back: the tables can be frozen and written again.
    check_restores(state.freeze().write_snapshot(small_disk / "model", num_shards=2), state)


@pytest.mark.parametrize("limit", [0, 100, 2_000, 16_000])
def test_wherever_a_write_fails_the_old_checkpoint_stays(tmp_path, limit):
    state = trained()
    first = state.freeze().write_snapshot(tmp_path)
    before = content_of(first)
    state.train(1)

    def save() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        state.freeze().write_snapshot(tmp_path)

    told = in_child(save)
    assert "model.ckpt-5 cannot be written: File too large" in told and "ulimit -f" in told, told
    assert [one.name for one in tmp_path.iterdir()] == ["model.ckpt-4"]
    assert content_of(first) == before


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def as_somebody_else(work: Callable[[], None]) -> str:
    def dropped() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work()

    return in_child(dropped)


def test_a_folder_that_cannot_be_written(open_folder):
    state = trained()
    first = state.freeze().write_snapshot(open_folder / "model")
    before = content_of(first)
    os.chmod(open_folder / "model", 0o555)
    state.train(1)
    told = as_somebody_else(lambda: state.freeze().write_snapshot(open_folder / "model") and None)
    assert "PermissionError" in told and "model.ckpt-5 cannot be written: Permission denied" in told, told
    assert "let this user write there, or use another model_dir" in told
    told = as_somebody_else(lambda: ModelDirOwner(open_folder / "model").close())
    assert "model cannot be trained in: Permission denied" in told and "owner.lock" in told, told
    told = as_somebody_else(lambda: check_restores(first, trained()))
    assert told == "", told  # reading needs no right to write
    assert content_of(first) == before


def test_who_was_taken_over_commits_nothing(tmp_path):
    state = trained()
    old = claim_generation(tmp_path, 0)
    first = state.freeze(generation=old).write_snapshot(tmp_path)
    trackers = state.track()
    state.train(1)
    base = state.freeze(generation=old, trackers=trackers).write_snapshot(tmp_path)
    state.train(1)
    frozen = state.freeze(generation=old, trackers=trackers)
    (tmp_path / "owner.lock").write_text('{"pid": 17, "host": "elsewhere"}')
    new = claim_generation(tmp_path, 0)
    assert new == old + 1
    with pytest.raises(FencedError, match=f'taken over by generation {new} .owner: {{"pid": 17, "host": "elsewhere"}}'):
        frozen.write_delta(base)
    with pytest.raises(FencedError, match="model.ckpt-6 is not written.*start it again"):
        state.freeze(generation=old).write_snapshot(tmp_path)
    assert latest_state(tmp_path) == base and first.exists()
    assert clean_leftovers(tmp_path) == []
    check_restores(state.freeze(generation=new).write_snapshot(tmp_path), state)


def test_a_takeover_while_files_are_written_is_noticed_before_they_get_their_name(tmp_path, monkeypatch):
    state = trained()
    generation = claim_generation(tmp_path, 0)

    def write_slowly(folder: Path, manifest: Manifest) -> None:
        write_manifest(folder, manifest)
        claim_generation(tmp_path, 0)  # somebody else, meanwhile

    monkeypatch.setattr(frozen_state, "write_manifest", write_slowly)
    with pytest.raises(FencedError):
        state.freeze(generation=generation).write_snapshot(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["generation"]


def test_compaction_is_no_takeover(tmp_path):
    state = trained()
    generation = claim_generation(tmp_path, 0)
    trackers = state.track()
    base = state.freeze(generation=generation, trackers=trackers).write_snapshot(tmp_path)
    state.train(2)
    state.freeze(generation=generation, trackers=trackers).write_delta(base)
    claim_generation(tmp_path, 0)  # a run that has ended without a checkpoint
    path = compact(tmp_path)
    assert path is not None and path.name == "model.ckpt-6"
    check_restores(path, state)


TRAIN = """
import sys
from monolith.checkpoint import ModelDirOwner
with ModelDirOwner(sys.argv[1]):
    pass
"""


def test_a_second_trainer_is_refused_and_told_who_the_first_is(tmp_path):
    with ModelDirOwner(tmp_path):
        done = subprocess.run([sys.executable, "-c", TRAIN, tmp_path], capture_output=True, text=True, check=False)
        with pytest.raises(ModelDirInUseError):
            compact(tmp_path)
    assert ModelDirInUseError.__name__ in done.stderr and f'"pid": {os.getpid()}' in done.stderr
    assert "stop it or use another model_dir" in done.stderr


def test_a_checkpoint_of_a_later_release_is_neither_used_nor_passed_over(tmp_path):
    state = trained()
    state.freeze().write_snapshot(tmp_path)
    state.train(1)
    newer = state.freeze().write_snapshot(tmp_path)
    rewrite_manifest(newer, lambda values: values.update(format=2))
    before = content_of(tmp_path)
    tables = make_tables(PLAN)
    with pytest.raises(NewerFormatError, match=r"is of format 2, this release reads format 1: .*later release"):
        load_snapshot(newer, plan=PLAN, tables=tables)
    # Going on from the older one would throw away what was trained since.
    with pytest.raises(NewerFormatError):
        latest_state(tmp_path)
    with pytest.raises(NewerFormatError):
        latest_state(tmp_path)
    assert content_of(tmp_path) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_restores(tmp_path / "model.ckpt-4", trained())


def test_a_delta_of_a_later_release_is_neither_used_nor_passed_over(tmp_path):
    state = trained()
    trackers = state.track()
    base = state.freeze(trackers=trackers).write_snapshot(tmp_path)
    state.train(1)
    delta = state.freeze(trackers=trackers).write_delta(base)
    rewrite_manifest(delta, lambda values: values.update(format=2))
    with pytest.raises(NewerFormatError):
        latest_state(tmp_path)
    with pytest.raises(NewerFormatError):
        load_snapshot(delta, plan=PLAN, tables=make_tables(PLAN))


def test_a_snapshot_takes_the_place_of_one_of_the_same_step(tmp_path):
    state = trained()
    state.freeze().write_snapshot(tmp_path)
    state.train(1)
    again = state.freeze(step=4).write_snapshot(tmp_path)
    assert again.name == "model.ckpt-4"
    check_restores(again, state)
    assert set_aside_newer(tmp_path, again) == []
    assert [one.name for one in tmp_path.iterdir()] == ["model.ckpt-4"]


@pytest.mark.parametrize("new_one", ["whole", "without manifest", "missing"])
def test_an_interrupted_replacement_is_ended(tmp_path, new_one):
    old, new = trained(4), trained(6)
    path = old.freeze().write_snapshot(tmp_path)
    path.rename(tmp_path / "model.ckpt-4.replaced")
    if new_one != "missing":
        new.freeze(step=4).write_snapshot(tmp_path / "elsewhere").rename(path)
        (tmp_path / "elsewhere").rmdir()
    if new_one == "without manifest":
        (path / "manifest.json").unlink()
    clean_leftovers(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["model.ckpt-4"]
    check_restores(path, new if new_one == "whole" else old)
