"""Record files as batches, by Monolith's pipeline; for every trainer whose tensors are torch's."""

from __future__ import annotations

from benchmarks.peers.clicks.shape import ID_NAMES, NUM_DENSE
from monolith.data import Pipeline, tfrecord
from monolith.data.schema import Dtype

COLUMNS: dict[str, Dtype] = {
    "label": "float32",
    "dense": f"float32[{NUM_DENSE}]",
    **dict.fromkeys(ID_NAMES, "int64"),
}


def read_records(files: str | list[str], batch_size: int) -> Pipeline:
    """Return the batches of record files, parsed."""
    return tfrecord(files, batch_size=batch_size).parse("tf_example", **COLUMNS)
