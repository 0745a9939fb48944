"""Messages about a run, one JSON text per event, sent from a background thread so that training does not wait."""

from monolith.observe.messages.json_lines import JsonLinesFile
from monolith.observe.messages.sink import MessageSink

__all__ = ["JsonLinesFile", "MessageSink"]
