"""Sharding of ids: the known example, random batches against the rules written out, and inputs that do not fit."""

import pytest
import torch

from monolith.embedding.layout import FusedLayout
from monolith.native_training.distribution_ops import sharding_sparse_fids
from monolith.protos.example_pb2 import FeatureConfig, FeatureConfigs
from monolith.tensors.ragged import Ragged
from tests.embedding.layout.reference_sharding import SHARED, random_batch, random_configs, reference_shard


def example_configs():
    return FeatureConfigs(
        feature_configs={
            "a": FeatureConfig(table="t", slice_dims=[1, 2]),
            "b": FeatureConfig(table="t", slice_dims=[2]),
        }
    )


def example_columns():
    return {"b": Ragged.from_lists([[7], []]), "a": Ragged.from_lists([[10, 11], [10]])}


def test_worked_example():
    sharded = FusedLayout(example_configs()).shard(example_columns(), ps_num=2)
    assert {name: fids.tolist() for name, fids in sharded.shards.items()} == {"t:0": [10], "t:1": [11, 7]}
    splits = {name: split.tolist() for name, split in sharded.shards_row_split.items()}
    assert splits == {"t:0": [0, 1, 1], "t:1": [0, 1, 2]}
    assert sharded.emb_size.tolist() == [3, 5]
    assert sharded.fid_offset.tolist() == [0, 1 << 32, 0, (1 << 32) | 3]
    assert sharded.feature_offset.tolist() == [0, 2, 3, 4, 4]
    assert sharded.nfl_offset.tolist() == [0, 2, 5]


def test_types_and_sizes():
    fields = sharding_sparse_fids(example_columns(), 2, example_configs(), True, "example")
    shards, fid_offset, feature_offset, nfl_offset, batch_size, nfl_size, feature_size, fid_size, emb_size = fields[:9]
    row_split, row_split_size, emb_row_length, table_row_length, shard_row_length = fields[9:]
    assert list(shards) == list(row_split) == list(row_split_size) == ["t:0", "t:1"]
    assert (fid_offset.dtype, feature_offset.dtype, nfl_offset.dtype) == (torch.uint64, torch.int32, torch.uint32)
    sizes = (batch_size, nfl_size, feature_size, fid_size)
    assert [size.tolist() for size in sizes] == [[2], [3], [5], [4]]
    assert {size.dtype for size in (*sizes, emb_size, *row_split_size.values())} == {torch.int32}
    assert [size.tolist() for size in row_split_size.values()] == [[3], [3]]
    assert emb_row_length.tolist() == [3, 5]
    assert table_row_length.tolist() == shard_row_length.tolist() == [1, 2]


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("ps_num", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_random_batches_follow_the_rules(seed, ps_num, unique):
    metas, _, configs = random_configs(seed, num_tables=3)
    lists, columns = random_batch(metas, seed)
    missing = sorted(lists)[seed]
    del lists[missing], columns[missing]
    sharded = FusedLayout(configs).shard(columns, ps_num, unique)
    blocks, splits, floats, fid_offset, feature_offset, nfl_offset = reference_shard(configs, lists, ps_num, unique, 7)
    assert {name: fids.tolist() for name, fids in sharded.shards.items()} == blocks
    assert {name: split.tolist() for name, split in sharded.shards_row_split.items()} == splits
    assert sharded.emb_size.tolist() == floats
    assert sharded.fid_offset.tolist() == fid_offset
    assert sharded.feature_offset.tolist() == feature_offset
    assert sharded.nfl_offset.tolist() == nfl_offset


def test_version_4_goes_by_server_first():
    metas, _, configs = random_configs(1, num_tables=3)
    lists, columns = random_batch(metas, 1)
    blocks, splits, floats, *_ = reference_shard(configs, lists, 2, True, 7)
    fields = sharding_sparse_fids(columns, 2, configs.SerializeToString(), True, "example_batch", version=4)
    names = [f"{table}:{ps}" for ps in range(2) for table in sorted({name[:-2] for name in blocks})]
    assert fields[0].tolist() == [fid for name in names for fid in blocks[name]]
    assert fields[9].tolist() == [start for name in names for start in splits[name]]
    assert fields[11].tolist() == [dict(zip(blocks, floats, strict=True))[name] for name in names]
    assert fields[12].tolist() == [len(blocks[name]) for name in names]
    assert fields[13].tolist() == [sum(len(blocks[n]) for n in blocks if n.endswith(f":{ps}")) for ps in range(2)]


def test_lists_instead_of_dicts_and_no_server_is_one():
    shards, *_, row_split, row_split_size, _, _, _ = sharding_sparse_fids(
        example_columns(), 0, example_configs(), True, "instance", fid_list_ret_list=True
    )
    assert [fids.tolist() for fids in shards] == [[10, 11, 7]]
    assert [split.tolist() for split in row_split] == [[0, 2, 3]]
    assert [size.tolist() for size in row_split_size] == [[3]]


def test_a_missing_feature_is_shared_only_in_a_batch_of_columns():
    columns = {"a": torch.tensor([[1, 2], [3, 4]])}
    by_column = sharding_sparse_fids(columns, 1, example_configs(), True, "examplebatch")
    assert (by_column[2].tolist(), by_column[3].tolist()) == ([0, 2, 4, 4], [0, 2 | SHARED, 4])
    by_row = sharding_sparse_fids(columns, 1, example_configs(), True, "example")
    assert (by_row[2].tolist(), by_row[3].tolist()) == ([0, 2, 4, 4, 4], [0, 2, 5])


def test_batch_size_of_shared_columns_alone_can_be_given():
    columns = {"a": Ragged.from_lists([[1]]), "b": Ragged.from_lists([[2]])}
    sharded = FusedLayout(example_configs()).shard(columns, batch_size=4)
    assert sharded.batch_size.tolist() == [4]
    assert sharded.nfl_offset.tolist() == [SHARED, 1 | SHARED, 3]


@pytest.mark.parametrize("batch_size", [None, 0])
def test_no_rows(batch_size):
    columns = {"a": Ragged.from_lists([]), "b": Ragged.from_lists([])}
    sharded = FusedLayout(example_configs()).shard(columns, batch_size=batch_size)
    assert (sharded.feature_offset.tolist(), sharded.nfl_offset.tolist()) == ([0], [0, 0, 1])


def test_columns_that_do_not_fit():
    layout = FusedLayout(example_configs())
    with pytest.raises(ValueError, match=r"no config of the features \['c'\]; pass only those of \['a', 'b'\]"):
        layout.shard({"c": torch.tensor([1])})
    with pytest.raises(ValueError, match="column 'b' has 2 rows, expected 3 or 1"):
        layout.shard({"a": torch.tensor([1, 2, 3]), "b": torch.tensor([1, 2])})
    with pytest.raises(ValueError, match="column 'b' has 1 rows, expected 3$"):
        columns = {"a": torch.tensor([1, 2, 3]), "b": torch.tensor([1])}
        sharding_sparse_fids(columns, 1, example_configs(), True, "example")
    with pytest.raises(TypeError, match="column 'a' must hold int64 ids"):
        layout.shard({"a": torch.tensor([1.0])})
    with pytest.raises(TypeError, match=r"column 'a' must be ragged, \[b\] or \[b, n\]"):
        layout.shard({"a": torch.zeros(1, 1, 1, dtype=torch.int64)})
    with pytest.raises(ValueError, match="ps_num must be at least 1, got -1"):
        layout.shard({}, ps_num=-1)
    with pytest.raises(ValueError, match="input_type must be one of"):
        sharding_sparse_fids({}, 1, example_configs(), True, "tfrecord")
    with pytest.raises(ValueError, match=r"version must be one of \[3, 4, 5\], got 2"):
        sharding_sparse_fids({}, 1, example_configs(), True, "example", version=2)
