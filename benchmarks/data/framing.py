"""Reading TFRecord files against reading their bytes and nothing else."""

from __future__ import annotations

from typing import Any

from benchmarks.data.sizes import DataSizes
from benchmarks.measure import interleave, speed_ratio, timed
from monolith._core import native
from monolith.data.files import RecordFileSource

READ_BYTES = 512 << 10


def measure_framing(files: list[str], sizes: DataSizes) -> dict[str, Any]:
    """Return seconds of a pass over all files, and the ratio of rates; all are in the system's cache by then."""
    num_records = sizes.num_records * len(files)

    def read_records() -> None:
        found = 0
        for batch in RecordFileSource(files, batch_size=sizes.batch_size):
            found += len(batch)
        if found != num_records:
            raise RuntimeError(f"the files gave {found} records, {num_records} were written")

    def read_bytes() -> None:
        # The checksum goes on from piece to piece: as many bytes, none of them kept.
        crc = 0
        for file in files:
            with open(file, "rb", buffering=0) as opened:
                while piece := opened.read(READ_BYTES):
                    crc = native.crc32c(piece, crc)

    contenders = {"records": lambda _: timed(read_records), "read": lambda _: timed(read_bytes)}
    samples = interleave(contenders, rounds=sizes.rounds)
    return {
        "records": {name: taken.summary(num_records) for name, taken in samples.items()},
        "vs_read": speed_ratio(samples["records"], samples["read"]),
    }
