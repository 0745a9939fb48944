"""Item pools in files: TFRecord files of `ChannelCache` messages beside a model's snapshots."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import fsspec
import numpy as np
import torch
from google.protobuf.message import DecodeError

from monolith.data.files import RecordFile, TFRecordWriter
from monolith.data.transforms.negative.channel_queue import ChannelQueue
from monolith.data.transforms.negative.item_pool import ItemPool
from monolith.errors import CorruptFileError
from monolith.features.fid import as_signed, as_unsigned
from monolith.protos.example_pb2 import ChannelCache, Feature, FeatureData
from monolith.tensors import Ragged

ITEMS_PER_RECORD = 4096
"""Items of one message; a channel with more takes several, in order."""

_NAME = re.compile(r"model\.ckpt-(?P<step>\d+)_item_pool_(?P<worker>\d+)_(?P<shard>\d+)_(?P<workers>\d+)")


def save_item_pool(
    pool: ItemPool, global_step: int, model_path: str, nshards: int = 1, *, worker_index: int = 0, num_workers: int = 1
) -> list[str]:
    """Write the pool of one worker and return the files, ``model.ckpt-<step>_item_pool_<worker>_<shard>_<workers>``.

    A channel is in the file of its number modulo `nshards`, its items oldest first.
    """
    if nshards <= 0 or not 0 <= worker_index < num_workers:
        raise ValueError(
            f"nshards must be positive and worker {worker_index} one of {num_workers}, got {nshards} shards"
        )
    files, _ = fsspec.core.url_to_fs(model_path)
    files.makedirs(files._strip_protocol(model_path), exist_ok=True)
    paths = []
    with pool.lock:
        for shard in range(nshards):
            path = f"{model_path.rstrip('/')}/model.ckpt-{global_step}_item_pool_{worker_index}_{shard}_{num_workers}"
            with TFRecordWriter(path) as writer:
                for channel_id, queue in pool.channels.items():
                    if as_unsigned(channel_id) % nshards == shard:
                        writer.write_all(message.SerializeToString() for message in _messages(channel_id, queue))
            paths.append(path)
    return paths


def restore_item_pool(
    pool: ItemPool,
    global_step: int,
    model_path: str,
    nshards: int | None = None,
    buffer_size: int = 10 << 20,
    *,
    worker_index: int = 0,
) -> int:
    """Replace the items in the pool by the saved ones; return their number.

    If there are other numbers of workers now and then, worker i takes the pool of worker i modulo the number then.

    Args:
        pool: Where the items go.
        global_step: Step of the files.
        model_path: Folder of the files.
        nshards: Files that the pool was saved in; None for as many as there are.
        buffer_size: Bytes of a file that are read at once.
        worker_index: This worker.

    Raises:
        FileNotFoundError: No pool was saved at this step, or one of its shards is missing.
        CorruptFileError: A file is damaged; the pool stays as it was.
    """
    found = _saved_files(global_step, model_path)
    num_workers = _one_number_of_workers(found, global_step, model_path)
    of_worker = {
        int(name["shard"]): path for path, name in found.items() if int(name["worker"]) == worker_index % num_workers
    }
    if not of_worker:
        raise FileNotFoundError(
            f"{model_path} has item pools of step {global_step}, but none of worker {worker_index % num_workers}"
        )
    _check_shards(of_worker, nshards)
    channels: dict[int, list[FeatureData]] = {}
    for _, path in sorted(of_worker.items()):
        for message in _read(path, buffer_size):
            channels.setdefault(message.channel_id, []).extend(message.feature_datas)
    queues = {channel: _queue(items, pool.max_item_num_per_channel) for channel, items in channels.items()}
    with pool.lock:
        pool.channels = queues
        return len(pool)


def saved_steps(model_path: str) -> list[int]:
    """Return the steps at which pools were saved in a folder, ascending; none if there is no such folder."""
    return sorted({int(name["step"]) for name in _pool_files(model_path).values()})


def item_pool_check(pool: ItemPool, global_step: int, model_path: str, *, worker_index: int = 0) -> bool:
    """Return whether the files hold exactly the items of the pool, with the same features and counts."""
    saved = pool.new()
    restore_item_pool(saved, global_step, model_path, worker_index=worker_index)

    def by_channel(of: ItemPool) -> dict[int, Any]:
        return {channel["channel"]: channel for channel in of.state()["channels"]}

    return by_channel(saved) == by_channel(pool)


def _check_shards(paths: Mapping[int, str], nshards: int | None) -> None:
    """Refuse a pool of which files are missing; the last ones are missed only by those who know how many there were."""
    wanted = max(paths) + 1 if nshards is None else nshards
    if set(paths) != set(range(wanted)):
        raise FileNotFoundError(
            f"an item pool in {wanted} files has shards 0 to {wanted - 1}, found {sorted(paths)} beside "
            f"{paths[min(paths)]}; "
            "bring the missing files back, or give the nshards that it was saved with"
        )


def _saved_files(global_step: int, model_path: str) -> dict[str, re.Match[str]]:
    """Return the files of a step, and their names taken apart."""
    return {path: name for path, name in _pool_files(model_path).items() if int(name["step"]) == global_step}


def _pool_files(model_path: str) -> dict[str, re.Match[str]]:
    files, folder = fsspec.core.url_to_fs(model_path)
    paths: Iterable[str] = files.ls(folder, detail=False) if files.isdir(folder) else []
    found = {files.unstrip_protocol(path): _NAME.fullmatch(path.rsplit("/", 1)[-1]) for path in paths}
    return {path: name for path, name in found.items() if name is not None}


def _one_number_of_workers(found: Mapping[str, re.Match[str]], global_step: int, model_path: str) -> int:
    numbers = {int(name["workers"]) for name in found.values()}
    if not numbers:
        raise FileNotFoundError(f"{model_path} has no item pool of step {global_step}")
    if len(numbers) > 1:
        raise ValueError(
            f"{model_path} has item pools of step {global_step} of {sorted(numbers)} workers; remove those of one run"
        )
    return numbers.pop()


def _messages(channel_id: int, queue: ChannelQueue) -> Iterable[ChannelCache]:
    features = {name: (rows.values.dtype, rows.to_list()) for name, rows in queue.features.items()}
    for begin in range(0, len(queue), ITEMS_PER_RECORD):
        message = ChannelCache(channel_id=channel_id)
        for place in range(begin, min(begin + ITEMS_PER_RECORD, len(queue))):
            item = message.feature_datas.add(
                gid=int(queue.gids[place]),
                origin_cnt=int(queue.origin_counts[place]),
                sample_cnt=int(queue.sample_counts[place]),
            )
            for name, (dtype, rows) in features.items():
                _fill(item.feature_columns.add(name=name).feature, dtype, rows[place])
        yield message


def _fill(feature: Feature, dtype: torch.dtype, values: list[Any]) -> None:
    if dtype == torch.uint8:
        feature.bytes_list.value.append(bytes(values))
    elif dtype == torch.float32:
        feature.float_list.SetInParent()
        feature.float_list.value.extend(values)
    else:
        feature.fid_v2_list.SetInParent()
        feature.fid_v2_list.value.extend(as_unsigned(value) for value in values)


def _read(path: str, buffer_size: int) -> Iterable[ChannelCache]:
    for place, record in enumerate(RecordFile(path, buffer_bytes=buffer_size)):
        try:
            yield ChannelCache.FromString(record)
        except DecodeError as error:
            raise CorruptFileError(f"record {place} of {path} is no ChannelCache message: {error}") from error


def _queue(items: list[FeatureData], max_items: int) -> ChannelQueue:
    columns: dict[str, _RowList] = {}
    for place, item in enumerate(items):
        if item.fids:
            raise CorruptFileError(
                f"item {item.gid} of a saved item pool has ids without feature names, which are needed"
            )
        for column in item.feature_columns:
            columns.setdefault(column.name, _RowList(column.name)).add(place, column.feature)
    try:
        return ChannelQueue.of(
            max_items,
            gids=np.array([item.gid for item in items], np.int64),
            origin_counts=np.array([item.origin_cnt for item in items], np.int64),
            sample_counts=np.array([item.sample_cnt for item in items], np.int64),
            features={name: column.rows(len(items)) for name, column in columns.items()},
        )
    except ValueError as error:
        raise CorruptFileError(f"a saved item pool does not hang together: {error}") from error


class _RowList:
    """One feature of items, gathered item by item; an item without it has an empty row."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._dtype: torch.dtype | None = None
        self._values: list[Any] = []
        self._lengths: dict[int, int] = {}

    def add(self, place: int, feature: Feature) -> None:
        """Add the feature of the item at a place."""
        kind = feature.WhichOneof("type")
        if kind in ("fid_v1_list", "fid_v2_list", "int64_list"):
            dtype, values = torch.int64, [as_signed(value) for value in getattr(feature, kind).value]
        elif kind == "float_list":
            dtype, values = torch.float32, list(feature.float_list.value)
        elif kind == "bytes_list" and len(feature.bytes_list.value) == 1:
            dtype, values = torch.uint8, list(feature.bytes_list.value[0])
        else:
            raise CorruptFileError(
                f"feature {self._name!r} of a saved item is {kind}; ids, floats or one string of bytes can be read"
            )
        if place in self._lengths or self._dtype not in (None, dtype):
            raise CorruptFileError(f"feature {self._name!r} of a saved item is there twice, or is of several types")
        self._dtype = dtype
        self._values += values
        self._lengths[place] = len(values)

    def rows(self, count: int) -> Ragged:
        """Return a row for each of `count` items."""
        lengths = torch.tensor([self._lengths.get(place, 0) for place in range(count)])
        return Ragged.from_row_lengths(torch.tensor(self._values, dtype=self._dtype), lengths)
