"""TensorFlow Recommenders Addons: lookup and insert of its CPU `CuckooHashTable`."""

from __future__ import annotations

import os

# Read by TensorFlow when it is imported: the addons know Keras 2 only.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped,unused-ignore]
import tensorflow_recommenders_addons as tfra  # type: ignore[import-not-found]

from benchmarks.ids import DISTRIBUTIONS, Distribution, checksum, ids_of_rows, new_rows, random_rows
from benchmarks.measure import timed
from benchmarks.peers.protocol import Operation, serve

ROWS_PER_FILL = 1 << 18


class CuckooTable:
    """A table that holds `num_rows` rows of `dim` floats."""

    def __init__(self, *, num_rows: int, dim: int, batch_size: int) -> None:
        """Make the table with room for its rows, and fill it."""
        self._num_rows, self._batch_size = num_rows, batch_size
        # Zeros as default rows, given as one row: the table then broadcasts it to unknown ids.
        self._table = tfra.dynamic_embedding.CuckooHashTable(
            tf.int64, tf.float32, tf.zeros([dim]), init_size=num_rows, device="/CPU:0"
        )
        self._new_values = tf.zeros([batch_size, dim])
        for begin in range(0, num_rows, ROWS_PER_FILL):
            rows = np.arange(begin, min(begin + ROWS_PER_FILL, num_rows), dtype=np.int64)
            self._table.insert(tf.constant(ids_of_rows(rows)), tf.zeros([len(rows), dim]))
        if int(self._table.size()) != num_rows:
            raise RuntimeError(f"the table holds {int(self._table.size())} rows after {num_rows} were inserted")

    def lookup(self, seed: int, *, distribution: Distribution) -> tuple[float, int]:
        """Look up one batch of known ids and return its seconds."""
        ids = ids_of_rows(random_rows(seed, self._batch_size, self._num_rows, distribution))
        batch = tf.constant(ids)
        return timed(lambda: self._table.lookup(batch)), checksum(ids)

    def insert(self, seed: int) -> tuple[float, int]:
        """Insert one batch of new ids and return its seconds."""
        ids = ids_of_rows(new_rows(seed, self._batch_size, self._num_rows))
        batch = tf.constant(ids)
        return timed(lambda: self._table.insert(batch, self._new_values)), checksum(ids)


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Build the table that the settings describe."""
    tf.config.threading.set_intra_op_parallelism_threads(settings.pop("num_threads"))
    table = CuckooTable(**settings)
    lookups = {f"lookup_{name}": partial(table.lookup, distribution=name) for name in DISTRIBUTIONS}
    return {**lookups, "insert": table.insert}


if __name__ == "__main__":
    serve(setup)
