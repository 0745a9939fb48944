"""How records stand in a file: TFRecord, or one of the headers of PB streams."""

import struct
from dataclasses import dataclass
from typing import Literal, TypeAlias

from monolith._core import native
from monolith.data.data_source import data_source_key
from monolith.data.files.record_types import PbType

MAX_RECORD_BYTES = 1 << 30
"""A length above this is taken for damage; messages of protobuf end at twice as much."""


@dataclass(frozen=True, kw_only=True)
class TFRecordFraming:
    """Records of a TFRecord file: length and payload, each with a checksum that is verified."""

    max_record_bytes: int = MAX_RECORD_BYTES
    """A longer record is an error, before any memory is taken for it."""

    @property
    def layout(self) -> native.FrameLayout:
        """The framing as the native core takes it."""
        return native.FrameLayout(tf_record=True, max_record_bytes=self.max_record_bytes)

    @property
    def has_data_source_key(self) -> bool:
        """TFRecord knows no data source keys."""
        return False


@dataclass(frozen=True, kw_only=True)
class PbFraming:
    """Records of a PB stream: the header that these switches describe, a size, the message. No checksums.

    All numbers are little-endian u64. Without switches a record is its size and the message alone.
    """

    has_sort_id: bool = True
    """The length of a sort id, and the sort id, which is skipped."""

    kafka_dump: bool = False
    """One number more before the size."""

    kafka_dump_prefix: bool = False
    """A number before all else: 0, and another follows; or the length of the sort id, which is then not repeated."""

    lagrangex_header: bool = False
    """Before the size, only a number with the type of the message and the data source key; replaces the others."""

    max_record_bytes: int = MAX_RECORD_BYTES
    """A longer record is an error, before any memory is taken for it."""

    @property
    def layout(self) -> native.FrameLayout:
        """The framing as the native core takes it."""
        return native.FrameLayout(
            lagrangex_header=self.lagrangex_header,
            sort_id=self.has_sort_id,
            kafka_dump=self.kafka_dump,
            kafka_dump_prefix=self.kafka_dump_prefix,
            max_record_bytes=self.max_record_bytes,
        )

    @property
    def has_data_source_key(self) -> bool:
        """Whether records say which source they come from."""
        return self.lagrangex_header


Framing: TypeAlias = TFRecordFraming | PbFraming
FramingName: TypeAlias = Literal["tfrecord", "pb"]


def framing_of(framing: Framing | FramingName) -> Framing:
    """Return the framing, or the one with all defaults that a name stands for."""
    if isinstance(framing, TFRecordFraming | PbFraming):
        return framing
    if framing not in ("tfrecord", "pb"):
        raise ValueError(f"framing must be 'tfrecord', 'pb', a TFRecordFraming or a PbFraming, got {framing!r}")
    return TFRecordFraming() if framing == "tfrecord" else PbFraming()


def lg_header(source: str, pb_type: PbType | None = None) -> bytes:
    """Return the 8 bytes of a lagrangex_header: the key of a source, and the type of the message, 0 without one."""
    return struct.pack("<Q", data_source_key(source) | int(pb_type or 0))


def sort_header(sort_id: bool, kafka_dump: bool, kafka_dump_prefix: bool) -> bytes:
    """Return the zeros that stand before a size: kafka prefix (16 bytes), empty sort id (8), kafka dump (8).

    >>> len(sort_header(sort_id=True, kafka_dump=False, kafka_dump_prefix=True))
    24
    """
    return bytes(16 * kafka_dump_prefix + 8 * sort_id + 8 * kafka_dump)
