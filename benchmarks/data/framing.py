"""Reading TFRecord files against reading their bytes and nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.data.sizes import DataSizes
from benchmarks.measure import Contender, interleave, speed_ratio, timed
from monolith._core import native
from monolith.data.files import RecordFileSource

READ_BYTES = 512 << 10


def measure_framing(files: list[str], sizes: DataSizes) -> dict[str, Any]:
    """Return seconds per file and the ratio of rates; all files are in the system's cache by then."""
    samples = interleave(
        {"records": _records(files, sizes), "read": _plain_read(files)}, rounds=sizes.rounds, warmup_rounds=2
    )
    return {
        "records": {name: taken.summary(sizes.num_records) for name, taken in samples.items()},
        "vs_read": speed_ratio(samples["records"], samples["read"]),
    }


def _records(files: list[str], sizes: DataSizes) -> Contender:
    def read(file: str) -> None:
        num_records = 0
        for batch in RecordFileSource(file, batch_size=sizes.batch_size):
            num_records += len(batch)
        if num_records != sizes.num_records:
            raise RuntimeError(f"{file} gave {num_records} records, {sizes.num_records} were written")

    return lambda seed: timed(lambda: read(files[seed % len(files)]))


def _plain_read(files: list[str]) -> Contender:
    def read(file: str) -> None:
        # The checksum goes on from piece to piece: as many bytes, none of them kept.
        crc = 0
        with open(file, "rb", buffering=0) as opened:
            while piece := opened.read(READ_BYTES):
                crc = native.crc32c(piece, crc)

    return lambda seed: timed(lambda: read(files[seed % len(files)]))
