"""MessageSink: where messages go."""

from typing import Protocol


class MessageSink(Protocol):
    """Takes messages at the speed of training; one that cannot keep up loses some rather than hold it up."""

    num_sent: int
    """Messages that are where they belong, or on their way."""

    num_lost: int
    """Messages that were let go."""

    def send(self, message: str) -> None:
        """Take one message; returns at once."""
        ...

    def close(self) -> None:
        """Bring what was taken to its place and give back what the sink holds; harmless when closed already."""
        ...
