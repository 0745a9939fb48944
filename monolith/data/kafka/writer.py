"""Records into a Kafka topic."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from monolith.data.kafka.settings import KafkaSettings


class KafkaWriter:
    """Appends records to topics; each is acknowledged by all replicas, once, or an error says so.

    Args:
        servers: Brokers as "host:port", a sequence or with commas.
        configuration: librdkafka's own settings, as a mapping or as "key=value".
        timeout_seconds: How long a record may wait for its acknowledgement.
    """

    def __init__(
        self,
        servers: Iterable[str] | str,
        *,
        configuration: Mapping[str, str] | Iterable[str] = (),
        timeout_seconds: float = 30.0,
    ) -> None:
        where = servers if isinstance(servers, str) else tuple(servers)
        settings = KafkaSettings(servers=where, configuration=configuration, timeout_seconds=timeout_seconds)
        from monolith.data.kafka import client  # noqa: PLC0415 -- needs the optional package

        self._settings = settings
        self._sender = client.KafkaSender(settings)

    def write_records(
        self,
        topic: str,
        records: Sequence[bytes],
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
    ) -> None:
        """Append records and wait until they are safe.

        Args:
            topic: Where to.
            records: The bytes of each.
            keys: One per record; records of one key go to one partition.
            partition: Which; without it the key decides, or chance if there is none.

        Raises:
            BrokerError: Some were not acknowledged in time; the others are there.
        """
        if keys is not None and len(keys) != len(records):
            raise ValueError(f"{len(records)} records and {len(keys)} keys; give one key per record, or none at all")
        self._sender.send(topic, records, keys or [None] * len(records), -1 if partition is None else partition)
        self._sender.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._sender.flush()

    def __repr__(self) -> str:
        return f"KafkaWriter({self._settings.where!r})"
