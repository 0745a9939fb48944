"""KafkaMessages: messages to a Kafka topic; the one module of observing that needs confluent-kafka."""

import logging
from collections.abc import Mapping
from typing import Any

try:
    from confluent_kafka import KafkaException, Producer
except ImportError as error:
    raise ImportError(
        "messages to Kafka need the confluent-kafka package: pip install 'monolith-recsys[kafka]', or write them to a "
        "file with JsonLinesFile"
    ) from error

CLOSE_SECONDS = 10.0
"""How long `close` waits for brokers."""

_log = logging.getLogger(__name__)


class KafkaMessages:
    """Sends messages to a topic; the client's own thread does the work, and messages that cannot be sent are counted.

    `total` is what `send` got; `success` and `failed` are what brokers said of it so far.
    """

    def __init__(self, brokers: str, topic: str, *, settings: Mapping[str, Any] | None = None) -> None:
        """Take brokers ("host:port,host:port") and topic; `settings` are librdkafka's, for authentication and so on."""
        self.topic = topic
        self.total = 0
        self.success = 0
        self.failed = 0
        self._producer = Producer({"linger.ms": 50, **(settings or {}), "bootstrap.servers": brokers})
        self._closed = False

    @property
    def num_sent(self) -> int:
        """Messages that were taken and not lost so far."""
        return self.total - self.failed

    @property
    def num_lost(self) -> int:
        """Messages that did not arrive."""
        return self.failed

    def send(self, message: str) -> None:
        """Take one message; returns at once."""
        self.total += 1
        try:
            self._producer.produce(self.topic, message.encode(), on_delivery=self._delivered)
        except (BufferError, KafkaException):
            self.failed += 1
        self._producer.poll(0)

    def close(self) -> None:
        """Wait for brokers, but not for long; harmless when closed already."""
        if self._closed:
            return
        self._closed = True
        if self._producer.flush(CLOSE_SECONDS):
            self._producer.purge()  # what is left is told to `_delivered` as failed, and not tried again for ever
            self._producer.flush(CLOSE_SECONDS)
        if self.failed:
            _log.warning("topic %s: %d of %d messages were lost", self.topic, self.failed, self.total)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.success += 1
        else:
            self.failed += 1
