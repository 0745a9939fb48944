"""The append-only event log on disk: one writer, any number of readers, exact positions."""

from monolith.data.event_log.folder import LogInUseError
from monolith.data.event_log.log_source import EventLogSource
from monolith.data.event_log.reader import log_length
from monolith.data.event_log.writer import EventLogWriter

__all__ = ["EventLogSource", "EventLogWriter", "LogInUseError", "log_length"]
