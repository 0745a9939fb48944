"""Records in: sources of events, and the batches and positions they give."""

from monolith.data.batch import Batch
from monolith.data.event_log import EventLogSource, EventLogWriter, LogInUseError, log_length
from monolith.data.schema import Dtype, Schema
from monolith.data.source import OffsetError, Source

__all__ = [
    "Batch",
    "Dtype",
    "EventLogSource",
    "EventLogWriter",
    "LogInUseError",
    "OffsetError",
    "Schema",
    "Source",
    "log_length",
]
