"""The records that every trainer reads: tf.Examples of 26 ids, 13 numbers and a label in TFRecord files."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from benchmarks.train.sizes import TrainSizes
from monolith.data import TFRecordWriter
from monolith.protos.tf_example_pb2 import Example


def write_records(sizes: TrainSizes, shape: ClickShape) -> None:
    """Write one file per round."""
    world = sizes.world()
    for seed in range(sizes.num_seeds):
        columns = world.events(seed * sizes.events_per_round, sizes.events_per_round)
        with TFRecordWriter(shape.records(seed)) as writer:
            for record in _serialized(columns):
                writer.write(record)


def ids_checksum(sizes: TrainSizes, seed: int) -> int:
    """Return the CRC-32 of the ids of a round as they were made: batch by batch, feature by feature."""
    columns = sizes.world().events(seed * sizes.events_per_round, sizes.events_per_round)
    ids = np.stack([columns[name] for name in ID_NAMES]).reshape(len(ID_NAMES), sizes.num_steps, sizes.batch_size)
    return zlib.crc32(np.ascontiguousarray(ids.transpose(1, 0, 2)).data)


def _serialized(columns: dict[str, Any]) -> Iterator[bytes]:
    label, dense = columns["label"], columns["dense"]
    ids = np.stack([columns[name] for name in ID_NAMES], axis=1).tolist()
    for row, row_ids in enumerate(ids):
        example = Example()
        feature = example.features.feature
        feature["label"].float_list.value.append(label[row])
        feature["dense"].float_list.value.extend(dense[row])
        for name, value in zip(ID_NAMES, row_ids, strict=True):
            feature[name].int64_list.value.append(value)
        yield example.SerializeToString()
