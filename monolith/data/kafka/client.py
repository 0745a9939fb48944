"""The one module that knows confluent-kafka: what the rest of the package asks of a broker."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NoReturn

from monolith.data.kafka.partition_queue import KafkaMessage
from monolith.data.kafka.settings import BrokerError, KafkaSettings
from monolith.data.source import OffsetError

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
except ImportError as missing:
    raise ImportError(
        f"Kafka needs the package {missing.name!r}, which is not installed: pip install 'monolith-recsys[kafka]'"
    ) from missing

# Trouble that librdkafka goes on working at by itself.
_PASSING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE)


def partition_name(topic: str, partition: int) -> str:
    """Return the name of a partition; topics cannot contain a colon.

    >>> partition_name("ratings", 3)
    'ratings:3'
    """
    return f"{topic}:{partition}"


def _place(name: str, offset: int = 0) -> TopicPartition:
    topic, _, partition = name.rpartition(":")
    return TopicPartition(topic, int(partition), offset)


@dataclass(slots=True)
class Fetched:
    """What one look at the brokers brought."""

    messages: dict[str, list[KafkaMessage]] = field(default_factory=dict)
    """New messages by partition, in order of offset."""

    ends: dict[str, int] = field(default_factory=dict)
    """Partitions whose end was reached: every offset below the number was given or does not exist."""


class KafkaReader:
    """A consumer of partitions that we choose ourselves: it joins no group and is never rebalanced."""

    def __init__(self, settings: KafkaSettings) -> None:
        """Make the consumer; the servers are not asked yet."""
        self._settings = settings
        self.trouble = ""
        """What the client last complained about; empty again once something arrives."""
        try:
            self._consumer: Any = Consumer({**settings.consumer(), "error_cb": self._complain})
        except KafkaException as error:
            raise ValueError(f"Kafka configuration: {self._text(error.args[0])}") from None

    def partitions(self, topics: Iterable[str]) -> list[str]:
        """Return the names of the topics' partitions, topic by topic."""
        return [name for topic in topics for name in self._partitions_of(topic)]

    def _partitions_of(self, topic: str) -> list[str]:
        try:
            found = self._consumer.list_topics(topic, timeout=self._settings.timeout_seconds).topics[topic]
        except KafkaException as error:
            self._unreachable(f"topic {topic!r} cannot be looked up", error.args[0])
        if found.error is not None or not found.partitions:
            reason = self._text(found.error) if found.error else "it has no partitions"
            raise BrokerError(
                f"Kafka topic {topic!r} at {self._settings.where}: {reason}; create it, or correct `topics`"
            )
        return [partition_name(topic, number) for number in sorted(found.partitions)]

    def watermarks(self, name: str) -> tuple[int, int]:
        """Return the first offset that the broker still has, and the one after its last."""
        try:
            low, high = self._consumer.get_watermark_offsets(_place(name), timeout=self._settings.timeout_seconds)
        except KafkaException as error:
            self._unreachable(f"the offsets of {name} cannot be looked up", error.args[0])
        return low, high

    def assign(self, positions: Mapping[str, int]) -> None:
        """Read these partitions from these offsets on."""
        self._consumer.assign([_place(name, offset) for name, offset in positions.items()])

    def pause(self, name: str) -> None:
        """Read no more of a partition for now."""
        self._consumer.pause([_place(name)])

    def resume(self, name: str) -> None:
        """Go on with a paused partition, where it stood."""
        self._consumer.resume([_place(name)])

    def fetch(self, max_messages: int, wait_seconds: float) -> Fetched:
        """Return what is at hand; if nothing is, wait for the first message or for so long."""
        arrived = self._consumer.consume(max_messages, timeout=0)
        if not arrived and (one := self._consumer.poll(wait_seconds)) is not None:
            # `consume` would wait until it has all it may take.
            arrived = [one, *self._consumer.consume(max_messages, timeout=0)]
        fetched = Fetched()
        notices = [message for message in arrived if message.error() is not None]
        if notices:
            arrived = [message for message in arrived if message.error() is None]
        for (topic, number), run in groupby(arrived, key=lambda message: (message.topic(), message.partition())):
            fetched.messages.setdefault(partition_name(topic, number), []).extend(run)
        for notice in notices:
            self._notice(notice, fetched)
        if arrived or fetched.ends:
            self.trouble = ""
        return fetched

    def _notice(self, message: Any, fetched: Fetched) -> None:
        error, name = message.error(), partition_name(message.topic(), message.partition())
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            fetched.ends[name] = message.offset()
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise offset_error(name, message.offset(), self.watermarks(name), self._settings)
        elif code in _PASSING or (error.retriable() and not error.fatal()):
            self._complain(error)
        else:
            raise BrokerError(f"Kafka at {self._settings.where}, partition {name}: {self._text(error)}")

    def _complain(self, error: KafkaError) -> None:
        self.trouble = self._text(error)

    def _unreachable(self, what: str, error: KafkaError) -> NoReturn:
        self._consumer.poll(0)  # lets the client say what it had to complain about
        why = self.trouble or self._text(error)
        raise BrokerError(
            f"Kafka at {self._settings.where}: {what} within {self._settings.timeout_seconds:g} s ({why}); "
            "check `servers` and that the brokers run"
        ) from None

    def _text(self, error: Any) -> str:
        return self._settings.redact(error.str() if isinstance(error, KafkaError) else str(error))

    def close(self) -> None:
        """Let go of the servers."""
        self._consumer.close()


def offset_error(name: str, offset: int, watermarks: tuple[int, int], settings: KafkaSettings) -> OffsetError:
    """Return the error of a position that the broker does not hold, with what it does hold and the ways out."""
    low, high = watermarks
    if offset < low:
        way_out = (
            f"{low - offset} offsets expired before they were read: lengthen the topic's retention, "
            f"or give them up by restoring {name!r} to {low}"
        )
    else:
        way_out = f"the topic was made anew, or the position is another topic's: begin again, or restore to {high}"
    return OffsetError(
        f"Kafka at {settings.where}: offset {offset} of {name} was asked for, but the broker has {low} to {high - 1}; "
        f"{way_out}"
    )


class KafkaSender:
    """A producer that counts what was not delivered."""

    def __init__(self, settings: KafkaSettings) -> None:
        """Make the producer; the servers are not asked yet."""
        self._settings = settings
        self._num_failed, self._failure = 0, ""
        try:
            self._producer: Any = Producer({**settings.producer(), "error_cb": lambda _: None})
        except KafkaException as error:
            raise ValueError(f"Kafka configuration: {settings.redact(str(error.args[0]))}") from None

    def send(self, topic: str, records: Sequence[bytes], keys: Sequence[bytes | None], partition: int) -> None:
        """Hand records over; they travel in the background until `flush`."""
        for record, key in zip(records, keys, strict=True):
            while True:
                try:
                    self._producer.produce(topic, record, key, partition, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until all records are acknowledged; BrokerError if one is not, within the time-out of the settings."""
        left = self._producer.flush(self._settings.timeout_seconds + 1)
        failed, self._num_failed = self._num_failed, 0
        if left or failed:
            raise BrokerError(
                f"Kafka at {self._settings.where}: {left + failed} records were not acknowledged within "
                f"{self._settings.timeout_seconds:g} s ({self._failure or 'no answer'}); check `servers` and the topic"
            )

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._num_failed += 1
            self._failure = self._settings.redact(error.str())
