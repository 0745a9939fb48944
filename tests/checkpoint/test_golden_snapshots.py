"""Snapshots of every version of the format of table files restore, and today's is written as it was."""

import shutil
from pathlib import Path

import pytest
import torch

from monolith.checkpoint import load_snapshot, reshard
from monolith.checkpoint.format.manifest import read_manifest
from monolith.checkpoint.restore.saved_tables import make_saved_tables
from monolith.embedding.hash_shards import shards_of_ids
from monolith.embedding.shard_files import find_shard_files, load_shard_files
from monolith.model import LookupPlan
from tests.checkpoint import golden_state as golden
from tests.checkpoint.small_state import rows_of

SNAPSHOTS = Path(__file__).parents[1] / "golden" / "snapshots"
VERSIONS = sorted(path.name for path in SNAPSHOTS.iterdir())
TODAY = "2.0"


def snapshot(version):
    return SNAPSHOTS / version / f"model.ckpt-{golden.STEP}"


def restored(path):
    manifest = read_manifest(path)
    tables = make_saved_tables(path, manifest)
    return tables, load_snapshot(path, plan=LookupPlan.from_json(manifest.plan), tables=tables)


def table_files(path):
    return {file.name: file.read_bytes() for file in (path / "tables").iterdir()}


def test_every_version_has_one():
    assert VERSIONS == ["1.0", "1.1", TODAY]
    for version in VERSIONS:
        for file in (snapshot(version) / "tables").iterdir():
            header = file.read_bytes()[8:12]
            assert f"{int.from_bytes(header[:2], 'little')}.{int.from_bytes(header[2:], 'little')}" == version


@pytest.mark.parametrize("version", VERSIONS)
def test_it_restores(version):
    tables, state = restored(snapshot(version))
    assert rows_of(tables) == rows_of(golden.golden_tables())
    assert torch.equal(tables["uid"].lookup(golden.IDS), golden.ROWS)
    assert tables["uid"].native.max_time == golden.MAX_TIME
    assert [tables["mov"].admission.native_filter.get(one) for one in golden.COUNTED_IDS.tolist()] == [1] * 40
    assert (state.step, state.generation, state.epoch) == (golden.STEP, golden.GENERATION, golden.EPOCH)
    assert state.dense["weight"].tolist() == [1.5, -2.25]
    assert state.stream == {"0": 70}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("num_shards", [3, 200, 1000])
def test_a_shard_of_it_restores(version, num_shards):
    """In old files rows of a bucket are not sorted by hash, so a shard that ends inside one takes some of its rows."""
    paths = find_shard_files(str(snapshot(version) / "tables" / "uid"))
    shards = shards_of_ids(golden.IDS, num_shards)
    for shard in range(0, num_shards, max(1, num_shards // 20)):
        tables = make_saved_tables(snapshot(version), read_manifest(snapshot(version)))
        load_shard_files(tables["uid"].native, paths, (shard, num_shards))
        own = golden.IDS[shards == shard]
        assert len(tables["uid"]) == len(own)
        assert torch.equal(tables["uid"].lookup(own), golden.ROWS[shards == shard])


@pytest.mark.parametrize("version", VERSIONS)
def test_resharding_makes_it_one_of_today(tmp_path, version):
    today = table_files(snapshot(TODAY))
    assert table_files(reshard(snapshot(version), tmp_path / "3", golden.NUM_SHARDS)) == today
    many = reshard(snapshot(version), tmp_path / "200", 200)
    assert table_files(reshard(many, tmp_path / "again", golden.NUM_SHARDS)) == today


def test_what_is_written_today_is_what_was_written(tmp_path):
    written = golden.write_golden(tmp_path)
    assert table_files(written) == table_files(snapshot(TODAY))


def test_files_of_two_versions_do_not_mix(tmp_path):
    mixed = tmp_path / snapshot(TODAY).name
    shutil.copytree(snapshot(TODAY), mixed)
    shutil.copyfile(snapshot("1.1") / "tables/uid-00001-of-00003", mixed / "tables/uid-00001-of-00003")
    table = make_saved_tables(mixed, read_manifest(mixed))["uid"]
    with pytest.raises(ValueError, match="uid-00001-of-00003 is damaged at byte 8: its format version is not that of"):
        table.restore(mixed / "tables" / "uid")
