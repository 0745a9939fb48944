"""The records of the benchmark: 26 ids and 13 numbers of an event of `CriteoEvents` each, as tf.Examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.sizes import DataSizes
from benchmarks.ids import ids_of_rows
from monolith.data import Batch, Pipeline
from monolith.data.files import RecordFileSource, TFRecordWriter
from monolith.data.parse import TfExampleParser
from monolith.data.schema import Dtype
from monolith.data.synthetic import CriteoEvents, tf_example_bytes
from monolith.tensors import Ragged

Array = np.ndarray[Any, Any]

ID_NAMES = tuple(f"C{number}" for number in range(1, 27))
DENSE_NAMES = tuple(f"I{number}" for number in range(1, 14))
LABEL = "label"


@dataclass(frozen=True, kw_only=True)
class Records:
    """The same records in every form that a contender takes them in."""

    columns: dict[str, Array]
    """What they were made of."""

    serialized: Ragged

    batch_size: int

    def batch(self, number: int) -> Ragged:
        """Return the records of a batch in memory of their own, as a reader of files hands them on."""
        rows = slice(number * self.batch_size, (number + 1) * self.batch_size + 1)
        splits = self.serialized.row_splits[rows]
        values = self.serialized.values[int(splits[0]) : int(splits[-1])]
        return Ragged(values.clone(), splits - splits[0])

    def ids(self, number: int) -> Array:
        """Return the ids of a batch, a row per feature."""
        rows = slice(number * self.batch_size, (number + 1) * self.batch_size)
        return np.stack([self.columns[name][rows] for name in ID_NAMES])

    def write_arrays(self, folder: Path) -> None:
        """Write what a peer in another process reads: values.npy and row_splits.npy."""
        np.save(folder / "values.npy", self.serialized.values.numpy())
        np.save(folder / "row_splits.npy", self.serialized.row_splits.numpy())

    def write_files(self, folder: Path, num_files: int) -> list[str]:
        """Write TFRecord files that hold all records each, and return their paths."""
        paths = [str(folder / f"part-{number}.tfrecord") for number in range(num_files)]
        for path in paths:
            with TFRecordWriter(path) as writer:
                writer.write_rows(self.serialized)
        return paths


def make_records(sizes: DataSizes) -> Records:
    """Return the records; their ids are hashes of 63 bits, as ids in use are, and differ between features."""
    events = CriteoEvents(1, num_ids=1_000_000).events(0, sizes.num_records)
    columns: dict[str, Array] = {LABEL: events["label"]}
    columns |= {name: np.ascontiguousarray(events["dense"][:, place]) for place, name in enumerate(DENSE_NAMES)}
    columns |= {name: ids_of_rows(events[name] + (place << 32)) for place, name in enumerate(ID_NAMES)}
    return Records(columns=columns, serialized=tf_example_bytes(columns), batch_size=sizes.batch_size)


def make_parser(id_type: Dtype = "int64") -> TfExampleParser:
    """Return the parser of the records, ids as one number or as a list per event."""
    floats: dict[str, Dtype] = dict.fromkeys((LABEL, *DENSE_NAMES), "float32")
    return TfExampleParser({**floats, **dict.fromkeys(ID_NAMES, id_type)})


def parsed_source(files: Sequence[str], batch_size: int) -> Pipeline:
    """Return the files as a source of parsed batches."""
    parser = make_parser()

    def parse(batch: Batch) -> Batch:
        records = batch.columns["record"]
        assert isinstance(records, Ragged)
        return batch.with_columns(parser(records)[0])

    return Pipeline(RecordFileSource(files, batch_size=batch_size)).map(parse, parser.schema)
