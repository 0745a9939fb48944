"""Deltas: a snapshot and the deltas on it are the state, to the byte; a broken link is found and named."""

import json
import shutil
import warnings

import pytest
import torch

from monolith._core import native
from monolith.checkpoint import (
    Saver,
    compact,
    latest_state,
    list_snapshots,
    load_snapshot,
    newest_link,
    set_aside_broken,
)
from monolith.checkpoint.keep import Retention, remove_one, retire_snapshots, roll_back
from monolith.checkpoint.save import rewrite
from monolith.embedding import ChangeTracker
from monolith.errors import CorruptFileError
from monolith.model import admission_filters, make_tables
from tests.checkpoint.small_state import PLAN, State, content_of, rows_of


def make_chain(folder, num_deltas=3):
    """Return a state, and the snapshot and deltas written on its way."""
    state = State()
    state.train(4)
    trackers = state.track()
    links = [state.freeze(trackers=trackers).write_snapshot(folder)]
    for _ in range(num_deltas):
        state.train(3)
        links.append(state.freeze(trackers=trackers).write_delta(links[-1]))
    return state, links


def restore(path):
    tables = make_tables(PLAN)
    return load_snapshot(path, plan=PLAN, tables=tables), tables


def test_snapshot_and_deltas_are_a_fresh_snapshot_of_the_same_moment(tmp_path):
    state, links = make_chain(tmp_path)
    fresh = state.freeze().write_snapshot(tmp_path / "fresh")
    snapshot, tables = restore(links[-1])
    assert (snapshot.step, snapshot.stream, snapshot.extra) == (13, {"0": 130}, {"note": 13})
    assert torch.equal(snapshot.dense["weight"], state.dense)
    again = state.freeze(tables=tables).write_snapshot(tmp_path / "again")
    assert content_of(again) == content_of(fresh)
    erased = sum(len(one) for one in _erased(links[1:]))
    assert erased > 0, "nothing was evicted: the test shows less than it says"


def _erased(deltas):
    return [ids for delta in deltas for ids in _tensors(delta / "erased.safetensors").values()]


def _tensors(path):
    header_bytes = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + header_bytes])
    return {name: range(entry["shape"][0]) for name, entry in header.items() if name != "__metadata__"}


def test_every_link_restores_its_own_moment(tmp_path):
    state = State()
    state.train(4)
    trackers = state.track()
    link, wanted = state.freeze(trackers=trackers).write_snapshot(tmp_path), {}
    wanted[link] = rows_of(state.tables)
    for _ in range(3):
        state.train(2)
        link = state.freeze(trackers=trackers).write_delta(link)
        wanted[link] = rows_of(state.tables)
    assert [path.name for path in wanted] == ["model.ckpt-4", *(f"model.ckpt-4.delta-{n}" for n in (1, 2, 3))]
    for path, rows in wanted.items():
        assert rows_of(restore(path)[1]) == rows


def test_a_delta_written_during_training_is_that_of_its_moment(tmp_path):
    state, paused = State(), State()
    for one in (state, paused):
        one.train(4)
    trackers, others = state.track(), paused.track()
    link = state.freeze(trackers=trackers).write_snapshot(tmp_path / "a")
    want = paused.freeze(trackers=others).write_snapshot(tmp_path / "b")
    for _ in range(3):
        for one in (state, paused):
            one.train(2)
        frozen = state.freeze(trackers=trackers)
        state.train(5)  # rows of the delta change, go and come back before it is written
        link, want = frozen.write_delta(link), paused.freeze(trackers=others).write_delta(want)
        assert content_of(link) == content_of(want)
        paused.train(5)


def test_a_delta_holds_only_what_changed(tmp_path):
    state = State()
    state.train(10, evict=False)
    trackers = state.track()
    base = state.freeze(trackers=trackers).write_snapshot(tmp_path)
    state.tables["uid"].apply_gradients(torch.tensor([500, 501]), torch.ones(2, 4), time=1)
    delta = state.freeze(trackers=trackers).write_delta(base)
    infos = [native.read_table_file_info(str(one / "tables" / "uid-00000-of-00001")) for one in (base, delta)]
    assert [info.num_rows for info in infos] == [len(state.tables["uid"]) - 2, 2]
    # id, time, weights and Adagrad's state; and 12 bytes at most for each row that begins a block
    sizes = [(one / "tables" / "uid-00000-of-00001").stat().st_size for one in (base, delta)]
    assert sizes[0] - sizes[1] >= (infos[0].num_rows - 2) * (8 + 4 + 2 * 4 * 4)


def test_filters_have_their_changes_or_all_of_them(tmp_path):
    state = State()
    state.train(4)
    trackers, (admission,) = state.track(), admission_filters(state.tables).values()
    links = [state.freeze(trackers=trackers).write_snapshot(tmp_path)]
    for tracked in (True, True, False, True, True):
        state.train(2)
        if not tracked:
            admission.track_changes(False)
        links.append(state.freeze(trackers=trackers).write_delta(links[-1]))
        admission.track_changes(True)
        assert rows_of(restore(links[-1])[1]) == rows_of(state.tables)
    names = [sorted(path.name for path in (link / "filters").iterdir()) for link in links]
    whole = [f"mov-0000{split}-of-00007" for split in range(7)]
    assert names == [whole, ["mov.changes"], ["mov.changes"], whole, ["mov.changes"], ["mov.changes"]]
    (links[1] / "filters" / "mov.changes").unlink()
    with pytest.raises(CorruptFileError, match=r"delta-1.*mov\.changes is missing"):
        restore(links[2])


def test_tables_in_use_hold_the_rows_of_the_chain_and_no_others(tmp_path):
    state, links = make_chain(tmp_path)
    in_use = State()
    in_use.train(6)
    in_use.tables["uid"].apply_gradients(torch.tensor([10_000]), torch.ones(1, 4), time=1)  # no link names it
    wanted = rows_of(state.tables)
    load_snapshot(links[-1], plan=PLAN, tables=in_use.tables)
    assert rows_of(in_use.tables) == wanted


@pytest.mark.parametrize("harm", ["missing", "no manifest", "flipped"])
def test_a_broken_link_is_named_and_what_is_before_it_can_be_restored(tmp_path, harm):
    _, links = make_chain(tmp_path)
    if harm == "missing":
        shutil.rmtree(links[2])
    elif harm == "no manifest":
        (links[2] / "manifest.json").unlink()
    else:
        file = links[2] / "tables" / "uid-00000-of-00001"
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    tables = make_tables(PLAN)
    with pytest.raises(CorruptFileError, match=r"broken at .*delta-2: .*model.ckpt-4.delta-1 can be restored"):
        load_snapshot(links[3], plan=PLAN, tables=tables)
    assert len(tables["uid"]) == 0
    restore(links[1])
    with pytest.warns(UserWarning, match=r"broken at .*delta-2"):
        assert newest_link(links[0]) == links[1]
    with pytest.warns(UserWarning, match=r"broken at .*delta-2"):
        assert latest_state(tmp_path) == links[1]
    aside = {path.name for path in set_aside_broken(links[1])}
    assert "model.ckpt-4.delta-3.damaged" in aside
    assert newest_link(links[0]) == links[1]


def test_a_delta_of_another_chain_is_not_taken(tmp_path):
    make_chain(tmp_path / "a")
    other = State()
    other.train(4)
    base = other.freeze(generation=2).write_snapshot(tmp_path / "b")
    for number in (1, 2):
        shutil.copytree(
            tmp_path / "a" / f"model.ckpt-4.delta-{number}", tmp_path / "b" / f"model.ckpt-4.delta-{number}"
        )
    with pytest.raises(CorruptFileError, match=r"delta-1: it builds on another model.ckpt-4"):
        restore(tmp_path / "b" / "model.ckpt-4.delta-2")
    with pytest.warns(UserWarning, match="builds on another"):
        assert newest_link(base) == base


def test_a_new_snapshot_of_the_same_step_takes_the_old_deltas_away(tmp_path):
    make_chain(tmp_path)
    state = State()
    state.train(4)
    state.freeze(generation=2).write_snapshot(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.ckpt-4"]


def test_compacting_gives_the_snapshot_that_would_have_been_taken(tmp_path):
    state, links = make_chain(tmp_path)
    fresh = content_of(state.freeze().write_snapshot(tmp_path / "fresh"))
    path = compact(tmp_path)
    assert path == tmp_path / "model.ckpt-13"
    assert content_of(path) == fresh
    assert list_snapshots(tmp_path) == [links[0], path]
    assert latest_state(tmp_path) == path == compact(tmp_path)
    assert compact(tmp_path / "empty") is None


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_compaction_that_is_interrupted_leaves_a_chain(tmp_path, monkeypatch, removed):
    _, links = make_chain(tmp_path)
    left = [removed]

    def remove_some(folder):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        shutil.rmtree(folder)

    monkeypatch.setattr(rewrite, "remove_snapshot", remove_some)
    with pytest.raises(KeyboardInterrupt):
        compact(tmp_path)
    assert latest_state(tmp_path) == tmp_path / "model.ckpt-13"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert newest_link(links[0]) == links[3 - removed]


def saver_of(folder, state, keep=10):
    saver = Saver(folder, PLAN, state.tables, retention=Retention(max_to_keep=keep))

    def save(*, delta):
        saver.begin(
            delta=delta,
            in_parallel=False,
            step=state.step,
            dense={"weight": state.dense.clone()},
            stream={},
            generation=0,
            epoch=state.step,
        )
        return saver.finish().name

    return saver, save


def test_a_saver_begins_with_a_snapshot_and_goes_on_with_deltas(tmp_path):
    state = State()
    saver, save = saver_of(tmp_path, state)
    names = []
    for delta in (False, True, True, True, False, True):
        state.train(2)
        names.append(save(delta=delta))
    assert names == [
        "model.ckpt-2",
        "model.ckpt-4",  # nothing was tracked since the first
        "model.ckpt-4.delta-1",
        "model.ckpt-4.delta-2",
        "model.ckpt-10",
        "model.ckpt-10.delta-1",
    ]
    saver.close()
    assert rows_of(restore(latest_state(tmp_path))[1]) == rows_of(state.tables)


def test_deltas_go_with_their_snapshot(tmp_path):
    state = State()
    saver, save = saver_of(tmp_path, state, keep=1)
    for delta in (True, True, False):
        state.train()
        save(delta=delta)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["model.ckpt-3"]
    saver.close()


def test_retention_keeps_every_link_that_a_kept_delta_needs(tmp_path):
    state = State()
    _, save = saver_of(tmp_path, state, keep=None)
    for delta in (True, True, True):
        state.train()
        save(delta=delta)
    # A snapshot of a step before the last delta's: the chain leads further, and stays.
    shutil.copytree(tmp_path / "model.ckpt-1", tmp_path / "model.ckpt-2")
    assert retire_snapshots(tmp_path, Retention(max_to_keep=1)) == []
    assert rows_of(restore(tmp_path / "model.ckpt-1.delta-2")[1]) == rows_of(state.tables)
    with pytest.raises(ValueError, match=r"model\.ckpt-1 is needed by .*delta-1"):
        remove_one(tmp_path / "model.ckpt-1", force=True)
    with pytest.raises(ValueError, match=r"delta-1 is needed by .*delta-2"):
        remove_one(tmp_path / "model.ckpt-1.delta-1", force=True)
    remove_one(tmp_path / "model.ckpt-2", force=True)
    with pytest.raises(ValueError, match=r"delta-2 is the newest state"):
        remove_one(tmp_path / "model.ckpt-1.delta-2")


def test_going_back_to_a_delta(tmp_path):
    state = State()
    saver, save = saver_of(tmp_path, state)
    for delta in (True, True, True, False):
        state.train()
        save(delta=delta)
        if state.step == 2:
            rows = rows_of(state.tables)
    saver.close()
    aside = roll_back(tmp_path / "model.ckpt-1.delta-1")
    assert [path.name for path in aside] == ["model.ckpt-4.rolled-back", "model.ckpt-1.delta-2.rolled-back"]
    assert latest_state(tmp_path).name == "model.ckpt-1.delta-1"
    assert rows_of(restore(latest_state(tmp_path))[1]) == rows
    (tmp_path / "model.ckpt-1" / "stream.json").write_text("x")
    with pytest.raises(CorruptFileError, match="stream.json"):
        roll_back(tmp_path / "model.ckpt-1.delta-1")


def test_too_many_changes_make_the_next_one_a_snapshot(tmp_path):
    state = State()
    saver, save = saver_of(tmp_path, state)
    state.train()
    save(delta=True)
    state.train()
    state.tables["mov"].clear()  # nothing says which rows are gone
    assert save(delta=True) == "model.ckpt-2"
    state.train()
    assert save(delta=True) == "model.ckpt-2.delta-1"
    saver.close()
    assert rows_of(restore(latest_state(tmp_path))[1]) == rows_of(state.tables)


def test_a_save_that_fails_makes_the_next_one_a_snapshot(tmp_path, monkeypatch):
    state = State()
    saver, save = saver_of(tmp_path, state)
    state.train()
    save(delta=True)
    state.train()
    with monkeypatch.context() as patch:
        patch.setattr("monolith.checkpoint.save.frozen_state.write_manifest", _fail)
        with pytest.raises(OSError, match="no space"):
            save(delta=True)
    state.train()
    assert save(delta=True) == "model.ckpt-3"
    assert isinstance(state.track()["uid"], ChangeTracker)
    saver.close()
    assert rows_of(restore(latest_state(tmp_path))[1]) == rows_of(state.tables)


def _fail(*_):
    raise OSError("no space left")


def test_all_files_have_the_rights_of_new_files(tmp_path, usual_rights):
    state = State()
    trackers = state.track()
    state.train(2)
    base = state.freeze(trackers=trackers).write_snapshot(tmp_path)
    state.train(2)
    delta = state.freeze(trackers=trackers).write_delta(base)
    rights = {file: oct(file.stat().st_mode & 0o777) for file in tmp_path.rglob("*") if file.is_file()}
    assert rights == dict.fromkeys(rights, oct(usual_rights))
    assert {base / "dense.safetensors", delta / "erased.safetensors"} <= rights.keys()
