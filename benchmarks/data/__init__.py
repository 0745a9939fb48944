"""The data benchmark: do records become tensors faster than a model can take them?

Records are tf.Examples of 26 ids and 13 numbers, made once; every contender gets the same bytes in batches of the same
size. The same events are a CSV file with texts for ids. Files lie in the system's cache: what is measured is our work,
not a disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks.data.csv_files import measure_csv
from benchmarks.data.figures import figures
from benchmarks.data.framing import measure_framing
from benchmarks.data.overlap import measure_overlap
from benchmarks.data.parsing import measure_parsing
from benchmarks.data.records import make_records
from benchmarks.data.service import measure_service
from benchmarks.data.sizes import SIZES, DataSizes
from benchmarks.machine import busy_notice
from benchmarks.report import Report

__all__ = ["SIZES", "measure"]


def measure(sizes: DataSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    notices: list[str] = []

    def notice(line: str) -> None:
        notices.append(line)
        progress(line)

    busy = busy_notice()
    if busy is not None:
        notice(busy)
    with tempfile.TemporaryDirectory(prefix="monolith-data-") as name:
        folder = Path(name)
        progress(f"making {sizes.num_records:,} records")
        records = make_records(sizes)
        files = records.write_files(folder, sizes.num_files)
        progress("parsing against TensorFlow and protobuf")
        parsing = measure_parsing(records, sizes, folder, notice)
        progress("TFRecord files against a plain read")
        framing = measure_framing(files, sizes)
        progress("reading ahead of training steps")
        overlap = measure_overlap(files, sizes)
        progress("CSV files against pyarrow, and against arrays")
        csv_files = measure_csv(records, sizes, folder)
        progress("a data service against reading here")
        service = measure_service(files, sizes, folder, notice)
    return Report(
        benchmark="data",
        quick=quick,
        figures=figures(parsing, framing, overlap, csv_files, service),
        details={"parsing": parsing, "framing": framing, "overlap": overlap, "csv": csv_files, "service": service},
        sizes=asdict(sizes),
        notices=notices,
    )
