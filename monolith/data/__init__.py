"""Records in: sources of events, and the batches and positions they give."""

from monolith.data.batch import Batch, Column
from monolith.data.event_log import EventLogSource, EventLogWriter, LogInUseError, log_length
from monolith.data.pipeline import Pipeline
from monolith.data.resume_check import assert_resume_is_exact
from monolith.data.schema import ColumnType, Dtype, Schema
from monolith.data.source import OffsetError, Source, State
from monolith.data.synthetic import MOVIE_SCHEMA, MovieEvents, append_forever

__all__ = [
    "MOVIE_SCHEMA",
    "Batch",
    "Column",
    "ColumnType",
    "Dtype",
    "EventLogSource",
    "EventLogWriter",
    "LogInUseError",
    "MovieEvents",
    "OffsetError",
    "Pipeline",
    "Schema",
    "Source",
    "State",
    "append_forever",
    "assert_resume_is_exact",
    "log_length",
]
