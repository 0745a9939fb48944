"""Item pools in files, also for another number of workers."""

import numpy as np
import pytest
import torch

from monolith.data.files import RecordFile
from monolith.data.transforms.negative import ItemPool
from monolith.data.transforms.negative.pool_files import item_pool_check, restore_item_pool, save_item_pool
from monolith.errors import CorruptFileError
from monolith.protos.example_pb2 import ChannelCache
from monolith.tensors import Ragged


def made_pool(channels, first=1, count=5):
    pool = ItemPool(0, 10_000)
    for channel in channels:
        gids = np.arange(first, first + count) + channel * 1000
        pool.channel(channel).push(
            gids,
            {
                "ids": Ragged.from_lists([[int(gid), -int(gid)][: gid % 3] for gid in gids], torch.int64),
                "price": Ragged.from_lists([[gid / 4] for gid in gids.tolist()], torch.float32),
                "name": Ragged.from_lists([list(str(gid).encode()) for gid in gids], torch.uint8),
            },
        )
        pool.channel(channel).count_samples(np.array([0, 2, 2]))
    return pool


def by_channel(pool):
    return {channel["channel"]: channel for channel in pool.state()["channels"]}


@pytest.mark.parametrize("nshards", [1, 3])
def test_a_pool_comes_back(tmp_path, nshards):
    pool = made_pool([3, 4, 8])
    paths = save_item_pool(pool, 100, str(tmp_path), nshards)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"model.ckpt-100_item_pool_0_{shard}_1" for shard in range(nshards)
    ]
    assert len(paths) == nshards
    again = ItemPool(0, 10_000)
    assert restore_item_pool(again, 100, str(tmp_path)) == 15
    assert by_channel(again) == by_channel(pool)
    assert item_pool_check(pool, 100, str(tmp_path))
    pool.channel(3).count_samples(np.array([0]))
    assert not item_pool_check(pool, 100, str(tmp_path))


def test_shards_that_are_missing_are_missed(tmp_path):
    pool = made_pool([3, 4, 8])
    save_item_pool(pool, 100, str(tmp_path), 3)
    again = ItemPool(0, 10_000)
    assert restore_item_pool(again, 100, str(tmp_path), 3, 1 << 10) == 15
    assert by_channel(again) == by_channel(pool)
    for nshards in (1, 2, 4):
        with pytest.raises(FileNotFoundError, match=rf"in {nshards} files .* found \[0, 1, 2\]"):
            restore_item_pool(again, 100, str(tmp_path), nshards)
    (tmp_path / "model.ckpt-100_item_pool_0_1_1").unlink()
    with pytest.raises(FileNotFoundError, match=r"shards 0 to 2, found \[0, 2\]"):
        restore_item_pool(again, 100, str(tmp_path))
    assert by_channel(again) == by_channel(pool)  # as it was
    save_item_pool(pool, 101, str(tmp_path))
    with pytest.raises(ValueError, match="buffer_bytes must be positive, got 0"):
        restore_item_pool(again, 101, str(tmp_path), buffer_size=0)


def test_files_hold_one_message_per_channel(tmp_path):
    (path,) = save_item_pool(made_pool([3, 4]), 1, str(tmp_path))
    messages = [ChannelCache.FromString(record) for record in RecordFile(path)]
    assert [message.channel_id for message in messages] == [3, 4]
    item = messages[0].feature_datas[2]
    assert (item.gid, item.origin_cnt, item.sample_cnt) == (3003, 1, 2)
    assert {column.name for column in item.feature_columns} == {"ids", "price", "name"}


def test_large_channels_take_several_messages_and_keep_their_order(tmp_path):
    pool = made_pool([3], count=5000)
    (path,) = save_item_pool(pool, 1, str(tmp_path))
    assert len(list(RecordFile(path))) == 2
    small = ItemPool(0, 10)
    restore_item_pool(small, 1, str(tmp_path))
    assert small.channel(3).gids.tolist() == pool.channel(3).gids[-10:].tolist()  # the newest stay


def test_another_number_of_workers(tmp_path):
    for worker in range(3):
        save_item_pool(made_pool([worker + 1]), 7, str(tmp_path), worker_index=worker, num_workers=3)
    taken = []
    for worker in range(5):
        pool = ItemPool(0, 100)
        restore_item_pool(pool, 7, str(tmp_path), worker_index=worker)
        taken.append(list(pool.channels))
    assert taken == [[1], [2], [3], [1], [2]]


def test_what_is_not_there_or_not_whole_is_said(tmp_path):
    pool = made_pool([3])
    before = pool.state()
    with pytest.raises(FileNotFoundError, match="no item pool of step 5"):
        restore_item_pool(pool, 5, str(tmp_path))
    (path,) = save_item_pool(pool, 5, str(tmp_path))
    save_item_pool(pool, 5, str(tmp_path), worker_index=1, num_workers=2)
    with pytest.raises(ValueError, match=r"of \[1, 2\] workers"):
        restore_item_pool(pool, 5, str(tmp_path))
    (tmp_path / "model.ckpt-5_item_pool_1_0_2").unlink()
    data = bytearray((tmp_path / "model.ckpt-5_item_pool_0_0_1").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "model.ckpt-5_item_pool_0_0_1").write_bytes(data)
    with pytest.raises(CorruptFileError):
        restore_item_pool(pool, 5, str(tmp_path))
    assert pool.state() == before
