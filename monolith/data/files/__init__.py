"""Records in files: TFRecord and PB streams, compressed or not, on this machine or behind an fsspec URL."""

from monolith.data.files.framing import (
    Framing,
    PbFraming,
    TFRecordFraming,
    lg_header,
    sort_header,
)
from monolith.data.files.patterns import expand_patterns, expand_placeholders, gen_patterns
from monolith.data.files.record_file import RecordFile, Records
from monolith.data.files.record_source import RecordFileSource
from monolith.data.files.record_types import CompressType, FeaturePruningType, PbType
from monolith.data.files.writers import PbFileWriter, TFRecordWriter

__all__ = [
    "CompressType",
    "FeaturePruningType",
    "Framing",
    "PbFileWriter",
    "PbFraming",
    "PbType",
    "RecordFile",
    "RecordFileSource",
    "Records",
    "TFRecordFraming",
    "TFRecordWriter",
    "expand_patterns",
    "expand_placeholders",
    "gen_patterns",
    "lg_header",
    "sort_header",
]
