"""Snapshots elsewhere: some tables alone, rows of another make, other numbers of files."""

from dataclasses import replace

import pytest
import torch

from monolith.checkpoint import load_snapshot, reshard, restore_tables
from monolith.embedding import Fp16Compressor, SgdOptimizer, Table
from monolith.errors import CorruptFileError
from monolith.features.fid import make_fid_v2
from monolith.model import make_tables
from tests.checkpoint.small_state import PLAN, State, content_of, rows_of


def make_snapshot(folder, **changes):
    state = State()
    state.train(12)
    return state, state.freeze(**changes).write_snapshot(folder)


def test_shards_to_others_and_back_are_the_same_bytes(tmp_path):
    state, path = make_snapshot(tmp_path / "1")
    before = content_of(path)
    five = reshard(path, tmp_path / "5", 5)
    assert len(list((five / "tables").glob("uid-*-of-00005"))) == 5
    restored = make_tables(PLAN)
    load_snapshot(five, plan=PLAN, tables=restored)
    assert rows_of(restored) == rows_of(state.tables)
    assert content_of(five) == content_of(state.freeze().write_snapshot(tmp_path / "direct", num_shards=5))
    assert content_of(reshard(reshard(five, tmp_path / "256", 256), tmp_path / "again", 1)) == before


def test_resharding_refuses_what_makes_no_sense(tmp_path):
    _, path = make_snapshot(tmp_path)
    with pytest.raises(ValueError, match="over itself"):
        reshard(path, tmp_path, 2)
    with pytest.raises(ValueError, match="1 to 65536 shards, got 0"):
        reshard(path, tmp_path / "out", 0)
    with pytest.raises(ValueError, match="compact its folder"):
        reshard(path.with_name(f"{path.name}.delta-1"), tmp_path / "out", 2)
    file = path / "tables" / "uid-00000-of-00001"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="uid-00000-of-00001"):
        reshard(path, tmp_path / "out", 2)


@pytest.mark.parametrize("harm", ["flipped", "of another save"])
def test_damage_found_while_resharding_leaves_nothing_behind(tmp_path, harm):
    _, path = make_snapshot(tmp_path / "1")
    file = path / "tables" / "uid-00000-of-00001"
    data = bytearray(file.read_bytes())
    if harm == "flipped":
        data[len(data) // 2] ^= 1
    else:
        _, other = make_snapshot(tmp_path / "2", epoch=99)
        assert len(data) == (other / "tables" / file.name).stat().st_size
        data = bytearray((other / "tables" / file.name).read_bytes())
    file.write_bytes(data)
    with pytest.raises(CorruptFileError, match="uid-00000-of-00001 is damaged"):
        reshard(path, tmp_path / "out", 2)
    assert not list((tmp_path / "out").glob("model*"))


@pytest.mark.parametrize("name", ["dense.safetensors", "stream.json", "filters/mov-00003-of-00007"])
def test_resharding_copies_no_damaged_file(tmp_path, name):
    _, path = make_snapshot(tmp_path / "1")
    data = bytearray((path / name).read_bytes())
    data[-1] ^= 1
    (path / name).write_bytes(data)
    with pytest.raises(CorruptFileError, match=f"{name} is damaged"):
        reshard(path, tmp_path / "out", 2)
    assert not (tmp_path / "out").exists()


def test_one_table_alone_is_restored(tmp_path):
    state, path = make_snapshot(tmp_path)
    restored = make_tables(PLAN)
    assert restore_tables(path, {"mov": restored["mov"]}) == {"mov": len(state.tables["mov"])}
    assert rows_of(restored)[0] == {"mov": rows_of(state.tables)[0]["mov"], "uid": {}}
    with pytest.raises(KeyError, match="no table 'user'; it has uid, mov"):
        restore_tables(path, {"user": restored["mov"]})


def test_a_table_that_was_renamed_is_restored_under_its_older_name(tmp_path):
    state, path = make_snapshot(tmp_path)
    config = replace(state.tables["mov"].config, name="movie", extra_restore_names=("film", "mov"))
    table = Table(config)
    assert restore_tables(path, {"movie": table}) == {"movie": len(state.tables["mov"])}
    ids = torch.cat([ids for ids, _ in table.items()])
    assert torch.equal(table.lookup(ids), state.tables["mov"].lookup(ids))
    with pytest.raises(KeyError, match="no table 'movie' nor 'film'; it has uid, mov"):
        restore_tables(path, {"movie": Table(replace(config, extra_restore_names=("film",)))})


def test_a_table_of_a_delta_has_its_changes_and_its_erased_ids(tmp_path):
    state = State()
    state.train(8)
    trackers = state.track()
    base = state.freeze(trackers=trackers).write_snapshot(tmp_path)
    state.train(8)
    delta = state.freeze(trackers=trackers).write_delta(base)
    restored = make_tables(PLAN)
    restore_tables(delta, {"uid": restored["uid"]})
    assert rows_of(restored)[0]["uid"] == rows_of(state.tables)[0]["uid"]


def test_a_serving_table_takes_the_weights_in_half_precision(tmp_path):
    state, path = make_snapshot(tmp_path)
    table = state.tables["uid"]
    segments = tuple(replace(segment, compressor=Fp16Compressor()) for segment in table.config.segments)
    served = Table(replace(table.config, segments=segments, serving=True))
    restore_tables(path, {"uid": served})
    ids = torch.cat([ids for ids, _ in table.items()])
    assert torch.equal(served.lookup(ids), table.lookup(ids).half().float())
    # Expiry goes on from when rows were seen last: half a day later, the older half is gone from both.
    now = state.step * 86_400 // 4 + 43_200
    assert served.evict(now) == table.evict(now) > 0


def test_another_optimizer_takes_the_weights_and_starts_afresh(tmp_path):
    state, path = make_snapshot(tmp_path)
    config = state.tables["uid"].config
    other = Table(replace(config, segments=tuple(replace(one, optimizer=SgdOptimizer()) for one in config.segments)))
    restore_tables(path, {"uid": other})
    ids = torch.cat([ids for ids, _ in state.tables["uid"].items()])
    assert len(other) == len(ids)
    assert torch.equal(other.lookup(ids), state.tables["uid"].lookup(ids))
    wider = Table(replace(config, segments=tuple(replace(one, dim=5) for one in config.segments)))
    with pytest.raises(ValueError, match=r"widths \[4\], the table to restore has \[5\]"):
        restore_tables(path, {"uid": wider})


def test_the_newest_time_and_step_of_a_table_are_restored_though_its_newest_row_is_gone(tmp_path):
    state = State()
    state.tables["uid"].native.raise_max_step(9)
    state.tables["uid"].assign(torch.tensor([1]), torch.ones(1, 4), time=5)
    state.tables["uid"].assign(torch.tensor([2]), torch.ones(1, 4), time=3 * 86_400)
    state.tables["uid"].erase(torch.tensor([2]))
    restored = make_tables(PLAN)["uid"]
    assert restore_tables(state.freeze().write_snapshot(tmp_path), {"uid": restored}) == {"uid": 1}
    assert restored.native.max_step == 9
    # Rows of users expire after a day; two have passed since this one was seen.
    assert restored.evict() == state.tables["uid"].evict() == 1


def test_some_slots_alone_are_restored(tmp_path):
    state = State()
    table = state.tables["uid"]
    fids = {slot: make_fid_v2(slot, torch.arange(20)) for slot in (3, 700, 32_767)}
    for slot, ids in fids.items():
        table.assign(ids, torch.full((20, 4), float(slot)), time=5)
    path = state.freeze().write_snapshot(tmp_path)
    restored = make_tables(PLAN)["uid"]
    assert restore_tables(path, {"uid": restored}, slots=[3, 32_767]) == {"uid": 40}
    assert {slot: bool(restored.contains(ids).any()) for slot, ids in fids.items()} == {
        3: True,
        700: False,
        32_767: True,
    }
    assert restored.lookup_entry(fids[3]) == table.lookup_entry(fids[3])


def test_rows_of_zeros_are_left_out_where_a_table_says_so(tmp_path):
    state = State()
    table = state.tables["uid"]
    table.assign(torch.tensor([1, 2, 3]), torch.tensor([[1.0] * 4, [0.0] * 4, [0.0, 0.0, 0.0, 2.0]]), time=5)
    path = state.freeze().write_snapshot(tmp_path)
    for skips, ids in ((False, [True, True, True]), (True, [True, False, True])):
        served = Table(replace(table.config, serving=True, skip_zero_embedding=skips))
        assert restore_tables(path, {"uid": served}) == {"uid": sum(ids)}
        assert served.contains(torch.tensor([1, 2, 3])).tolist() == ids
