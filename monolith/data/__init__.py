"""Records in: sources of events, the steps between them and training, and positions that can be returned to.

A pipeline begins with a function of this module and goes on with methods of `Pipeline`:

>>> import monolith as mono
>>> clicks = mono.data.arrays({"uid": [1, 2, 3, 4], "label": [0.0, 1.0, 1.0, 0.0]}, batch_size=2)
>>> pipeline = clicks.filter(lambda batch: batch.columns["uid"] != 2).rebatch(3).prefetch()
>>> [batch.columns["uid"].tolist() for batch in pipeline]
[[1, 3, 4]]
"""

from monolith.data.batch import Batch, Column
from monolith.data.event_log import EventLogSource, EventLogWriter, LogInUseError, log_length
from monolith.data.files import PbFileWriter, PbFraming, RecordFileSource, TFRecordWriter, expand_patterns
from monolith.data.joiner import JoinConfig, Joiner, corrected_logit
from monolith.data.kafka import KafkaSource, KafkaWriter
from monolith.data.origins import (
    arrays,
    arrow,
    csv,
    data_loader,
    event_log,
    frame,
    iterable,
    jsonl,
    kafka,
    parquet,
    pb_files,
    synthetic,
    tfrecord,
)
from monolith.data.pipeline import Pipeline
from monolith.data.prefetch import Prefetched
from monolith.data.resume_check import assert_resume_is_exact
from monolith.data.schema import ColumnType, Dtype, Schema
from monolith.data.source import OffsetError, Source, State
from monolith.data.synthetic import (
    CRITEO_SCHEMA,
    MOVIE_SCHEMA,
    CriteoEvents,
    MovieEvents,
    SyntheticSource,
    append_forever,
)
from monolith.features.kept_strings import keep_strings

__all__ = [
    "CRITEO_SCHEMA",
    "MOVIE_SCHEMA",
    "Batch",
    "Column",
    "ColumnType",
    "CriteoEvents",
    "Dtype",
    "EventLogSource",
    "EventLogWriter",
    "JoinConfig",
    "Joiner",
    "KafkaSource",
    "KafkaWriter",
    "LogInUseError",
    "MovieEvents",
    "OffsetError",
    "PbFileWriter",
    "PbFraming",
    "Pipeline",
    "Prefetched",
    "RecordFileSource",
    "Schema",
    "Source",
    "State",
    "SyntheticSource",
    "TFRecordWriter",
    "append_forever",
    "arrays",
    "arrow",
    "assert_resume_is_exact",
    "corrected_logit",
    "csv",
    "data_loader",
    "event_log",
    "expand_patterns",
    "frame",
    "iterable",
    "jsonl",
    "kafka",
    "keep_strings",
    "log_length",
    "parquet",
    "pb_files",
    "synthetic",
    "tfrecord",
]
