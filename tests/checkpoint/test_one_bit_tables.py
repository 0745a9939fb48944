"""One-bit rows read through a scale that grows with the step: every way back from a checkpoint restores it."""

import pytest
import torch

import monolith as mono
from monolith.checkpoint import FrozenState, compact, load_snapshot, reshard, restore_tables
from monolith.checkpoint.shards import PartialRecoverySaver, TableShard
from monolith.data import Schema
from monolith.embedding import OneBitCompressor
from monolith.model import make_plan, make_tables

IDS = torch.arange(40)


class OneBitModel(mono.MonolithModel):
    def __init__(self):
        super().__init__()
        self.create_embedding_feature_column("uid")

    def model_fn(self, features, mode):
        (user,) = self.lookup_embedding_slice(["uid"], slice_dim=4, compressor=OneBitCompressor(step_size=10))
        return mono.EstimatorSpec(label=None, pred=user, loss=user.sum())


PLAN = make_plan(OneBitModel(), Schema.of(uid="int64"))


def train(tables, first, count):
    for step in range(first, first + count):
        draw = torch.Generator().manual_seed(step)
        ids = IDS[torch.randint(0, len(IDS), (12,), generator=draw)]
        gradients = tables["uid"].lookup(ids) + torch.randn(12, 4, generator=draw)
        tables["uid"].apply_gradients(ids, gradients, global_step=100_000 + step, time=1000 + step)


def freeze(tables, step, trackers=None):
    return FrozenState(
        step=step, plan=PLAN, tables=tables, dense={}, stream={}, generation=1, epoch=step, trackers=trackers
    )


@pytest.fixture
def chain(tmp_path):
    """Tables, and a snapshot and two deltas written on their way."""
    tables = make_tables(PLAN)
    train(tables, 0, 30)
    trackers = {"uid": tables["uid"].track_changes()}
    links = [freeze(tables, 30, trackers).write_snapshot(tmp_path / "model")]
    for first in (30, 60):
        train(tables, first, 30)
        links.append(freeze(tables, first + 30, trackers).write_delta(links[-1]))
    return tables, links


def assert_goes_on_like(restored, tables):
    assert torch.equal(restored["uid"].lookup(IDS), tables["uid"].lookup(IDS))
    for one in (restored, tables):
        train(one, 90, 100)
    assert torch.equal(restored["uid"].lookup(IDS), tables["uid"].lookup(IDS))
    assert restored["uid"].lookup_entry(IDS) == tables["uid"].lookup_entry(IDS)


@pytest.mark.parametrize("was_in_use", [False, True])
def test_from_a_chain_of_deltas(chain, was_in_use):
    tables, links = chain
    restored = make_tables(PLAN)
    if was_in_use:
        train(restored, 10**6, 3)
    load_snapshot(links[-1], plan=PLAN, tables=restored)
    assert_goes_on_like(restored, tables)


def test_from_a_snapshot(chain, tmp_path):
    tables, _ = chain
    path = freeze(tables, 90).write_snapshot(tmp_path / "alone")
    restored = make_tables(PLAN)
    load_snapshot(path, plan=PLAN, tables=restored)
    assert_goes_on_like(restored, tables)


def test_one_table_alone(chain):
    tables, links = chain
    restored = make_tables(PLAN)
    restore_tables(links[-1], {"uid": restored["uid"]})
    assert_goes_on_like(restored, tables)


def test_from_files_that_were_written_anew(chain, tmp_path):
    tables, links = chain
    resharded = reshard(compact(links[0].parent), tmp_path / "resharded", num_shards=3)
    restored = make_tables(PLAN)
    load_snapshot(resharded, plan=PLAN, tables=restored)
    assert_goes_on_like(restored, tables)


def test_shards_of_a_model_read_through_one_scale(tmp_path):
    """The shard that was trained last has the newest step; after a save all have it, and the files too."""
    old = [TableShard(index, 2, PLAN, {}) for index in range(2)]
    mine = [IDS[shard.owns(IDS)] for shard in old]
    for step, (shard, ids) in enumerate(zip(old, mine, strict=True)):
        shard.tables["uid"].apply_gradients(ids, torch.ones(len(ids), 4), global_step=50_000 * (step + 1))
    path = PartialRecoverySaver(old, PLAN, tmp_path).save(1)
    new = [TableShard(index, 2, PLAN, {}) for index in range(2)]
    PartialRecoverySaver(new, PLAN, tmp_path).restore(path)
    for before, after, ids in zip(old, new, mine, strict=True):
        assert after.tables["uid"].native.max_step == before.tables["uid"].native.max_step == 100_000
        assert torch.equal(after.tables["uid"].lookup(ids), before.tables["uid"].lookup(ids))
