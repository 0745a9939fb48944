"""Small events whose every value follows from its offset, and logs made of them."""

import struct
from pathlib import Path

import numpy as np

from monolith._core import native
from monolith.data import EventLogSource, EventLogWriter, Schema

SCHEMA = Schema.of(uid="int64", label="float32", seq="int64")
RECORD_BYTES = 20
SEGMENT_HEADER_BYTES = 44
FRAME_HEADER_BYTES = 36


def made(first: int, count: int) -> dict[str, np.ndarray]:
    seq = np.arange(first, first + count)
    return {"uid": seq * 7919 - 5, "label": (seq % 3).astype(np.float32), "seq": seq}


def write(path: Path, counts: list[int], *, segment_bytes: int = 1 << 20) -> int:
    """Append frames of the given numbers of events, and return the length of the log."""
    with EventLogWriter(path, SCHEMA, segment_bytes=segment_bytes) as writer:
        for count in counts:
            writer.append(made(writer.offset, count))
        return writer.offset


def read(path: Path, *, start: int = 0) -> int:
    """Read the log, check every value, and return its length."""
    length = start
    for batch in EventLogSource(path, batch_size=64, start=start):
        assert batch.first == length
        for name, values in made(batch.first, len(batch)).items():
            assert batch.columns[name].tolist() == values.tolist()
        length = batch.last
    return length


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("*.events"))


def append_and_report(path: str, pipe, frame: int, limit: int | None) -> None:
    """Body of a writer process: append frames, and tell after each sync how much is safe."""
    with EventLogWriter(path, SCHEMA, segment_bytes=4096) as writer:
        pipe.send_bytes(str(writer.offset).encode())
        while limit is None or writer.offset < limit:
            for _ in range(3):
                writer.append(made(writer.offset, frame))
            writer.flush()
            writer.append(made(writer.offset, 1))
            writer.sync()
            pipe.send_bytes(str(writer.offset).encode())


def write_first_version(path: Path, counts: list[int]) -> int:
    """Write a log as the first version of the format has it, without generations; returns its length."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "schema.json").write_text(SCHEMA.to_json())

    def checked(body: bytes) -> bytes:
        return body + struct.pack("<I", native.crc32c(body))

    data, offset = checked(struct.pack("<8sIIQQ", b"MNLEVTS\n", 1, RECORD_BYTES, SCHEMA.hash, 0)), 0
    for count in counts:
        records = np.empty(count, SCHEMA.numpy_dtype)
        for name, values in made(offset, count).items():
            records[name] = values
        payload = records.tobytes()
        data += checked(struct.pack("<4sIQII", b"EVTF", count, offset, len(payload), native.crc32c(payload))) + payload
        offset += count
    (path / f"{0:020d}.events").write_bytes(data)
    return offset
