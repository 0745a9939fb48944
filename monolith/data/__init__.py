"""Records in: sources of events, and the batches and positions they give."""

from monolith.data.batch import Batch
from monolith.data.event_log import EventLogSource, EventLogWriter, LogInUseError, log_length
from monolith.data.paced_append import append_forever
from monolith.data.schema import Dtype, Schema
from monolith.data.source import OffsetError, Source
from monolith.data.synthetic import MOVIE_SCHEMA, MovieEvents

__all__ = [
    "MOVIE_SCHEMA",
    "Batch",
    "Dtype",
    "EventLogSource",
    "EventLogWriter",
    "LogInUseError",
    "MovieEvents",
    "OffsetError",
    "Schema",
    "Source",
    "append_forever",
    "log_length",
]
