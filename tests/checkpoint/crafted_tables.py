"""Table files taken apart and put together again, with right checksums around whatever was made of them."""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from monolith._core import native

HEADER = struct.Struct("<8sHHI3Q10Iq")
SHORT_HEADER_BYTES, CRC_AT = 80, 76
VERSION, NUM_SHARDS, WEIGHT_BYTES, STATE_BYTES, SCHEMA_BYTES = slice(1, 3), 9, 12, 13, 15
"""Places among the header's fields."""


@dataclass
class Block:
    """Rows of one bucket."""

    bucket: int
    ids: list[int]
    last_seen: list[int]
    rows: list[bytes]
    num_rows: int | None = None
    """What the block says, if that is another number than it has."""

    def __bytes__(self) -> bytes:
        """Return it as it lies in a file, with its checksum."""
        head = struct.pack("<II", self.bucket, len(self.ids) if self.num_rows is None else self.num_rows)
        ids, times = np.array(self.ids, "<i8").tobytes(), np.array(self.last_seen, "<u4").tobytes()
        content = head + ids + times + b"".join(self.rows)
        return content + struct.pack("<I", native.crc32c(content))


@dataclass
class TableFile:
    """A file of one table; change its blocks or counts and write it again."""

    header: list[int | bytes]
    schema: bytes
    blocks: list[Block]
    counts: dict[int, int] = field(default_factory=dict)
    """Bucket -> what the index says of its rows, where that is not the truth."""

    num_rows: int | None = None
    """What the footer says, if that is not the truth."""

    between: bytes = b""
    """Bytes after each block that belong to nothing."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Take a file of a single shard apart."""
        data = path.read_bytes()
        header = list(HEADER.unpack_from(data))
        row_bytes = header[WEIGHT_BYTES] + header[STATE_BYTES]
        offset = HEADER.size + header[SCHEMA_BYTES]
        (index_offset,) = struct.unpack_from("<Q", data, len(data) - 32)
        schema, blocks = data[HEADER.size : offset], []
        while offset < index_offset:
            bucket, count = struct.unpack_from("<II", data, offset)
            ids = np.frombuffer(data, "<i8", count, offset + 8).tolist()
            times = np.frombuffer(data, "<u4", count, offset + 8 + 8 * count).tolist()
            first = offset + 8 + 12 * count
            rows = [data[first + one * row_bytes : first + (one + 1) * row_bytes] for one in range(count)]
            blocks.append(Block(bucket, ids, times, rows))
            offset = first + count * row_bytes + 4
        return cls(header, schema, blocks)

    def make_old(self, major: int, minor: int) -> None:
        """Make it a file of an older version, in which rows of a bucket were sorted by id; of small buckets only."""
        self.header[VERSION] = [major, minor]
        for block in self.blocks:
            by_id = sorted(zip(block.ids, block.last_seen, block.rows, strict=True))
            block.ids, block.last_seen, block.rows = map(list, zip(*by_id, strict=True))

    def __bytes__(self) -> bytes:
        """Return the file, every checksum in it right."""
        header = HEADER.pack(*self.header)
        start, rest = header[:CRC_AT], b"" if self.header[VERSION] == [1, 0] else header[SHORT_HEADER_BYTES:]
        rest += self.schema
        data = start + struct.pack("<I", native.crc32c(start + rest)) + rest
        places, found = {}, dict.fromkeys(range(native.NUM_BUCKETS), 0)
        for block in self.blocks:
            places.setdefault(block.bucket, len(data))
            found[block.bucket] += len(block.ids)
            data += bytes(block) + self.between
        counts = found | self.counts
        following = len(data)
        for one in reversed(range(native.NUM_BUCKETS)):  # an empty bucket begins where the next one does
            following = places.setdefault(one, following)
        index = b"".join(struct.pack("<QQ", places[one], counts[one]) for one in found)
        num_rows = sum(counts.values()) if self.num_rows is None else self.num_rows
        footer = struct.pack("<QQI", len(data), num_rows, native.crc32c(index))
        return data + index + footer + struct.pack("<I", native.crc32c(footer)) + b"MONOEND\n"
