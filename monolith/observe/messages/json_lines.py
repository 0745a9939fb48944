"""JsonLinesFile: messages to a file, a line each."""

import logging
import os
import queue
import threading
from pathlib import Path
from typing import TextIO

QUEUE_MESSAGES = 8192
"""Messages that may wait to be written."""

_log = logging.getLogger(__name__)


class JsonLinesFile:
    """Appends messages to a file from a thread of its own; when the disk cannot keep up, messages are let go.

    A disk that fails loses messages too: training is worth more than its messages. The first message opens the
    file, making its folder if need be; what is in it stays.
    """

    def __init__(self, path: str | os.PathLike[str], *, queue_messages: int = QUEUE_MESSAGES) -> None:
        """Take the file, and how many messages may wait for the disk."""
        self.path = Path(path)
        self.num_sent = 0
        self.num_lost = 0
        self._waiting: queue.Queue[str | None] = queue.Queue(queue_messages)
        self._thread: threading.Thread | None = None

    def send(self, message: str) -> None:
        """Take one message, which must not hold a line break; returns at once."""
        if self._thread is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = open(self.path, "a", encoding="utf-8")
            self._thread = threading.Thread(target=self._write, args=(file,), name=f"write {self.path}", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(message)
            self.num_sent += 1
        except queue.Full:
            self.num_lost += 1

    def close(self) -> None:
        """Write what waits, and close the file; harmless when closed already."""
        if self._thread is None:
            return
        self._waiting.put(None)
        self._thread.join()
        self._thread = None
        if self.num_lost:
            _log.warning("%s: %d messages were lost, %d written", self.path, self.num_lost, self.num_sent)

    def _write(self, file: TextIO) -> None:
        with file:
            while (message := self._waiting.get()) is not None:
                try:
                    file.write(f"{message}\n")
                    if self._waiting.empty():
                        file.flush()  # readers that follow the file see every message
                except OSError as error:
                    self.num_lost += 1
                    self.num_sent -= 1
                    _log.warning("%s: a message could not be written: %s", self.path, error)
