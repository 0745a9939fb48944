"""The train benchmark: DeepFM and DLRM from serialized records, against other systems that train the same nets.

All trainers read the same TFRecord files of tf.Examples, without reading ahead, and use all cores. Ours is the
library's loop over its pipeline. Those in torch read through the same pipeline, so that they are compared by what they
do with a batch; TFRA reads through tf.data and tf.io.parse_example. Ids become rows of fixed tables before torch's
and TorchRec's clock starts; ours and TFRA's tables take any id, and grow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict

from benchmarks.machine import busy_notice, require_memory
from benchmarks.peers.clicks.shape import MODELS
from benchmarks.report import Report
from benchmarks.train.figures import figures
from benchmarks.train.records import write_records
from benchmarks.train.sizes import SIZES, TrainSizes
from benchmarks.train.turns import measure_model

__all__ = ["SIZES", "measure"]


def measure(sizes: TrainSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    require_memory(sizes.memory_bytes())
    notices: list[str] = []

    def notice(line: str) -> None:
        if line not in notices:
            notices.append(line)
            progress(line)

    busy = busy_notice()
    if busy is not None:
        notice(busy)
    with tempfile.TemporaryDirectory(prefix="monolith-train-") as folder:
        progress(f"writing {sizes.num_seeds * sizes.events_per_round:,} records")
        write_records(sizes, sizes.shape(MODELS[0], folder))
        measured = {model: measure_model(sizes, sizes.shape(model, folder), progress, notice) for model in MODELS}
    return Report(
        benchmark="train",
        quick=quick,
        figures=figures(measured),
        details=measured,
        sizes={**asdict(sizes), "rows_at_start": sum(sizes.table_rows())},
        notices=notices,
    )
