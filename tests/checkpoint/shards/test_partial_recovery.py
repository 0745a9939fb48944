"""A model in several processes: all of it is restored, or only what was lost with a process."""

from contextlib import contextmanager

import pytest
import torch

from monolith.checkpoint import load_snapshot, save_snapshot
from monolith.checkpoint.shards import PartialRecoverySaver, PsMonitor, TableShard
from monolith.errors import CorruptFileError
from monolith.model import make_tables
from tests.checkpoint.shards.shard_process import PLAN, Holder, ShardProcess

IDS = list(range(50))
RARE_IDS = [one << 17 for one in IDS]


@contextmanager
def processes(*indices, of=2):
    started = [ShardProcess(index, of) for index in indices]
    try:
        yield started
    finally:
        for one in started:
            one.end()


def values_of(shards):
    """Dense numbers by name, and the set of values that the rows of each shard have."""
    found = [shard.values(IDS) for shard in shards]
    assert sorted(int(one) for part in found for one in part["rows"]) == IDS
    return [next(iter(part["dense"].values())) for part in found], [set(part["rows"].values()) for part in found]


def train(shards, time):
    for shard in shards:
        shard.add(IDS, time)


def test_restore_with_ps_monitor(tmp_path):
    with processes(0, 1) as old:
        saver = PartialRecoverySaver(old, PLAN, tmp_path, ps_monitor=PsMonitor(old))
        train(old, 100)
        path = saver.save(1)
        saver.setup_ps_initialized_state()
        train(old, 200)
        assert values_of(old) == ([2.0, 2.0], [{2.0}, {2.0}])
        assert saver.restore(path) == []  # nobody has lost anything
        assert values_of(old) == ([2.0, 2.0], [{2.0}, {2.0}])
        with processes(0, 1) as new:
            assert PartialRecoverySaver(new, PLAN, tmp_path, ps_monitor=PsMonitor(new)).restore(path) == [0, 1]
            assert values_of(new) == ([1.0, 1.0], [{1.0}, {1.0}])
        # The second process is killed, and another one takes its place.
        old[1].end()
        with processes(1) as (second,):
            mixed = [old[0], second]
            saver = PartialRecoverySaver(mixed, PLAN, tmp_path, ps_monitor=PsMonitor(mixed))
            assert saver.restore(path) == [1]
            assert values_of(mixed) == ([2.0, 1.0], [{2.0}, {1.0}])
            saver.setup_ps_initialized_state()
            assert saver.restore(path) == []


def test_restore_without_ps_monitor(tmp_path):
    with processes(0, 1) as shards:
        saver = PartialRecoverySaver(shards, PLAN, tmp_path)
        train(shards, 100)
        path = saver.save(1)
        train(shards, 200)
        assert values_of(shards) == ([2.0, 2.0], [{2.0}, {2.0}])
        assert saver.restore(path) == [0, 1]
        assert values_of(shards) == ([1.0, 1.0], [{1.0}, {1.0}])


def test_ids_that_have_no_row_yet_are_counted_on_after_a_restore(tmp_path):
    def add_rare(shards):
        for shard in shards:
            shard.add(RARE_IDS, 100, "rare")
        return [set(shard.values(RARE_IDS, "rare")["rows"].values()) for shard in shards]

    with processes(0, 1) as shards:
        assert add_rare(shards) == [{0.0}, {0.0}]
        path = PartialRecoverySaver(shards, PLAN, tmp_path).save(1)
        assert add_rare(shards) == [{0.0}, {0.0}]
        assert add_rare(shards) == [{1.0}, {1.0}]
        # The first process is killed, and what it had counted since the save is lost with it.
        shards[0].end()
        with processes(0) as (first,):
            mixed = [first, shards[1]]
            first.restore_part(str(path))
            assert add_rare(mixed) == [{0.0}, {2.0}]
            assert add_rare(mixed) == [{1.0}, {3.0}]
    # One process counts on what two counted, and three.
    tables = make_tables(PLAN)
    load_snapshot(path, plan=PLAN, tables=tables)
    assert [tables["rare"].admission.native_filter.get(one) for one in RARE_IDS] == [1] * len(IDS)
    three = local(3)
    three[2].shard.dense.clear()  # two had a number each
    saver = PartialRecoverySaver(three, PLAN, tmp_path / "three")
    saver.restore(path)
    again = saver.save(1)
    names = sorted(file.name for file in (path / "filters").iterdir())
    assert len(names) == 7
    for name in names:
        assert (again / "filters" / name).read_bytes() == (path / "filters" / name).read_bytes()
    assert [add_rare(three) for _ in range(2)] == [[{0.0}] * 3, [{1.0}] * 3]


class Local(Holder):
    """A shard in this process, with the same calls."""

    def __getattr__(self, name):
        return getattr(self.shard, name)


def local(num_shards):
    return [Local(index, num_shards) for index in range(num_shards)]


@pytest.mark.parametrize("times", [(100, 101, 102), (102, 100, 101)])
def test_what_several_wrote_is_a_snapshot_like_any_other(tmp_path, times):
    shards = local(3)
    for time, shard in zip(times, shards, strict=True):
        shard.add(IDS, time)  # each has seen another time and step last
        shard.shard.tables["uid"].native.raise_max_step(time)
    path = PartialRecoverySaver(shards, PLAN, tmp_path).save(7, stream={"0": 9}, epoch=4)
    tables = make_tables(PLAN)
    snapshot = load_snapshot(path, plan=PLAN, tables=tables)
    assert (snapshot.step, snapshot.stream, snapshot.epoch) == (7, {"0": 9}, 4)
    assert sorted(snapshot.dense) == ["v0", "v1", "v2"]
    assert tables["uid"].lookup(torch.tensor(IDS)).eq(1).all()
    assert (tables["uid"].native.max_time, tables["uid"].native.max_step) == (102, 102)
    # Two processes take what three wrote.
    two = [TableShard(index, 2, PLAN, {f"v{index}": torch.zeros(())}) for index in range(2)]
    PartialRecoverySaver(two, PLAN, tmp_path).restore(path)
    assert [len(shard.tables["uid"]) for shard in two] == [int(shard.owns(torch.tensor(IDS)).sum()) for shard in two]
    assert sum(len(shard.tables["uid"]) for shard in two) == len(IDS)


def test_retention_and_exempt_ones(tmp_path):
    shards = local(2)
    saver = PartialRecoverySaver(
        shards, PLAN, tmp_path, max_to_keep=2, exempt_checkpoint_paths=[str(tmp_path / "model.ckpt-1")]
    )
    for step in range(1, 6):
        saver.save(step)
    assert [path.rpartition("-")[2] for path in saver.last_checkpoints] == ["1", "4", "5"]
    assert saver.exempt_checkpoint_paths == [str(tmp_path / "model.ckpt-1")]


def test_one_that_is_not_to_write_writes_nothing(tmp_path):
    assert PartialRecoverySaver(local(2), PLAN, tmp_path, skip_save=True).save(1) is None
    assert list(tmp_path.iterdir()) == []


def test_a_shard_takes_no_rows_of_another():
    shard, ids = local(2)[0].shard, torch.tensor(IDS)
    table, before = shard.tables["uid"], len(shard.tables["uid"])
    refusal = "belongs to shard 1 of 2, and this table holds shard 0 of 2"
    foreign = ids[~shard.owns(ids)]
    with pytest.raises(ValueError, match=refusal):
        table.assign(ids, torch.ones(len(ids), 1), time=1)
    with pytest.raises(ValueError, match=refusal):
        table.lookup(foreign)
    assert not table.contains(foreign).any() and table.erase(foreign) == 0
    assert len(table) == before


def test_one_of_a_thousand_writes_and_reads_its_own_rows_only(tmp_path):
    ids, rows = torch.arange(-20_000, 20_000), torch.arange(40_000).float().view(-1, 1)
    whole = make_tables(PLAN)
    whole["uid"].assign(ids, rows, time=100)
    path = save_snapshot(
        tmp_path, 1, plan=PLAN, tables=whole, dense={"v7": torch.ones(())}, stream={}, generation=0, epoch=0
    )
    shard = TableShard(7, 1000, PLAN, {"v7": torch.zeros(())})
    shard.restore_part(str(path))
    mine = shard.owns(ids)
    assert 20 < int(mine.sum()) == len(shard.tables["uid"]) < 60
    assert torch.equal(shard.tables["uid"].lookup(ids[mine]), rows[mine])
    for name in ("tables", "filters"):
        (tmp_path / "part" / name).mkdir(parents=True)
    shard.freeze("a save", shard.progress(), track=False)
    shard.write_part("a save", str(tmp_path / "part"), 0, 0, changes=False)
    names = sorted(file.name for file in (tmp_path / "part" / "tables").iterdir())
    assert names == ["rare-00007-of-01000", "uid-00007-of-01000"]
    with pytest.raises(ValueError, match="there is no shard 1000 of 1000"):
        TableShard(1000, 1000, PLAN, {})
    with pytest.raises(ValueError, match="1 to 65536 shards, got 65537"):
        TableShard(0, 65_537, PLAN, {})


def test_a_damaged_snapshot_changes_nobody(tmp_path):
    shards = local(2)
    train(shards, 5)
    saver = PartialRecoverySaver(shards, PLAN, tmp_path)
    path = saver.save(1)
    train(shards, 6)
    (path / "stream.json").write_text("x")
    with pytest.raises(CorruptFileError):
        saver.restore(path)
    assert values_of(shards) == ([2.0, 2.0], [{2.0}, {2.0}])


def test_all_files_have_the_rights_of_new_files(tmp_path, usual_rights):
    shards = local(2)
    train(shards, 5)
    path = PartialRecoverySaver(shards, PLAN, tmp_path).save(1)
    rights = {file.name: oct(file.stat().st_mode & 0o777) for file in path.rglob("*") if file.is_file()}
    assert rights == dict.fromkeys(rights, oct(usual_rights))
    assert "dense.safetensors" in rights
