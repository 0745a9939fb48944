"""TensorFlow Recommenders Addons: DeepFM over one dynamic embedding for all features, each step a `tf.function`."""

from __future__ import annotations

import os

# Read by TensorFlow when it is imported: the addons know Keras 2 only.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import time
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped,unused-ignore]
import tensorflow_recommenders_addons as tfra  # type: ignore[import-not-found]

from benchmarks.peers.clicks.shape import ID_NAMES, NUM_DENSE, NUM_FEATURES, ClickShape
from benchmarks.peers.protocol import Operation, serve

ROWS_PER_FILL = 1 << 18
# Features share a table: above the ids stands the feature.
FIRST_KEYS = np.arange(NUM_FEATURES, dtype=np.int64) << 40


class TfraDeepFm:
    """The model, its table, and one optimizer for each of them."""

    def __init__(self, shape: ClickShape) -> None:
        """Make everything, with room for the first rows, and insert them."""
        self._shape = shape
        initializer = tf.keras.initializers.RandomUniform(-shape.row_scale, shape.row_scale)
        self._rows = tfra.dynamic_embedding.keras.layers.Embedding(
            embedding_size=shape.row_width,
            key_dtype=tf.int64,
            value_dtype=tf.float32,
            initializer=initializer,
            devices=["/CPU:0"],
            init_capacity=2 * sum(shape.table_rows),
            name="rows",
        )
        widths = [*[(width, "relu") for width in shape.hidden], (1, None)]
        self._deep = [tf.keras.layers.Dense(width, activation=activation) for width, activation in widths]
        self._linear = tf.keras.layers.Dense(1)
        optimizers = tf.keras.optimizers.legacy
        self._optimizer = optimizers.Adagrad(shape.learning_rate, initial_accumulator_value=0.0)
        self._row_optimizer = tfra.dynamic_embedding.DynamicEmbeddingOptimizer(
            optimizers.Adagrad(shape.row_learning_rate, initial_accumulator_value=shape.accumulator)
        )
        self._fill()
        self._parse = tf.function(_parse)
        self._step = tf.function(self._plain_step)
        self._reading_seconds = 0.0

    def operations(self) -> Mapping[str, Operation]:
        """Return what the peer offers: a round from its records, and the reading's part of the last round."""
        return {"train": self.train, "reading": lambda seed: (self._reading_seconds, 0)}

    def train(self, seed: int) -> tuple[float, int]:
        """Train on the records of a round; returns the seconds, and the checksum of the ids."""
        taken = self._reading_seconds = 0.0
        checksum = 0
        start = time.perf_counter()
        batches = iter(tf.data.TFRecordDataset(self._shape.records(seed)).batch(self._shape.batch_size))
        for _ in range(self._shape.num_steps):
            ids, dense, label = self._parse(next(batches))
            read = time.perf_counter()
            self._step(ids, dense, label).numpy()
            end = time.perf_counter()
            self._reading_seconds += read - start
            taken += end - start
            checksum = zlib.crc32(np.ascontiguousarray(ids.numpy().T).data, checksum)
            start = time.perf_counter()
        return taken, checksum

    def _fill(self) -> None:
        self._rows.build([])
        for first, count in zip(FIRST_KEYS, self._shape.table_rows, strict=True):
            for begin in range(1, count + 1, ROWS_PER_FILL):
                ids = np.arange(begin, min(begin + ROWS_PER_FILL, count + 1), dtype=np.int64) + first
                values = tf.random.uniform(
                    [len(ids), self._shape.row_width], -self._shape.row_scale, self._shape.row_scale
                )
                self._rows.params.upsert(tf.constant(ids), values)

    def _logit(self, ids: Any, dense: Any) -> Any:
        rows = self._rows(ids + FIRST_KEYS)
        dim = self._shape.dim
        single = tf.reduce_sum(rows[:, :, dim], axis=1)
        rows = rows[:, :, :dim]
        square = tf.square(tf.reduce_sum(rows, axis=1))
        pairs = 0.5 * tf.reduce_sum(square - tf.reduce_sum(tf.square(rows), axis=1), axis=1)
        hidden = tf.concat([tf.reshape(rows, [-1, NUM_FEATURES * dim]), dense], axis=1)
        for layer in self._deep:
            hidden = layer(hidden)
        return single + pairs + tf.squeeze(hidden, 1) + tf.squeeze(self._linear(dense), 1)

    def _plain_step(self, ids: Any, dense: Any, label: Any) -> Any:
        with tf.GradientTape() as tape:
            logit = self._logit(ids, dense)
            loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(label, logit))
        rows = self._rows.trainable_variables
        weights = [weight for layer in (*self._deep, self._linear) for weight in layer.trainable_variables]
        gradients = tape.gradient(loss, [*rows, *weights])
        self._row_optimizer.apply_gradients(zip(gradients[: len(rows)], rows, strict=True))
        self._optimizer.apply_gradients(zip(gradients[len(rows) :], weights, strict=True))
        return loss


def _parse(serialized: Any) -> tuple[Any, Any, Any]:
    """Return ids [events, features], numbers and labels of serialized tf.Examples."""
    features = {name: tf.io.FixedLenFeature([], tf.int64) for name in ID_NAMES}
    features |= {
        "dense": tf.io.FixedLenFeature([NUM_DENSE], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.float32),
    }
    columns = tf.io.parse_example(serialized, features)
    return tf.stack([columns[name] for name in ID_NAMES], axis=1), columns["dense"], columns["label"]


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Build the trainer that the settings describe."""
    shape = ClickShape.of(settings)
    tf.config.threading.set_intra_op_parallelism_threads(shape.num_threads)
    return TfraDeepFm(shape).operations()


if __name__ == "__main__":
    serve(setup)
