"""TensorFlow: `tf.io.parse_example` of batches of serialized tf.Examples."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped,unused-ignore]

from benchmarks.ids import checksum
from benchmarks.measure import timed
from benchmarks.peers.protocol import Operation, serve


class ExampleParsing:
    """Parses the batches of a folder, as a compiled function over all threads."""

    def __init__(
        self, *, folder: str, batch_size: int, batches_per_round: int, ids: list[str], floats: list[str]
    ) -> None:
        """Read the records into string tensors, the form in which TensorFlow hands records on."""
        values = np.load(Path(folder) / "values.npy").tobytes()
        splits = np.load(Path(folder) / "row_splits.npy").tolist()
        records = [values[begin:end] for begin, end in zip(splits[:-1], splits[1:], strict=True)]
        firsts = range(0, len(records), batch_size)
        self._batches = [tf.constant(records[first : first + batch_size]) for first in firsts]
        self._batches_per_round = batches_per_round
        self._ids = ids
        dense = {name: tf.io.FixedLenFeature([], tf.float32) for name in floats}
        fixed = {name: tf.io.FixedLenFeature([], tf.int64) for name in ids}
        ragged = {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in ids}
        self._parse = {
            "fixed": tf.function(lambda batch: tf.io.parse_example(batch, {**dense, **fixed})),
            "ragged": tf.function(lambda batch: tf.io.parse_example(batch, {**dense, **ragged})),
        }

    def run(self, seed: int, *, kind: str) -> tuple[float, int]:
        """Parse the batches from number `seed` on; return the seconds of one, and the checksum of its ids."""
        parse = self._parse[kind]
        numbers = [(seed + place) % len(self._batches) for place in range(self._batches_per_round)]
        batches = [self._batches[number] for number in numbers]
        first = parse(batches[0])
        ids = [first[name].flat_values if kind == "ragged" else first[name] for name in self._ids]

        def parse_all() -> None:
            for batch in batches:
                parse(batch)

        return timed(parse_all) / len(batches), checksum(np.stack([column.numpy() for column in ids]))


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Read the records that the settings name."""
    tf.config.threading.set_intra_op_parallelism_threads(settings.pop("num_threads"))
    parsing = ExampleParsing(**settings)
    return {kind: partial(parsing.run, kind=kind) for kind in ("fixed", "ragged")}


if __name__ == "__main__":
    serve(setup)
