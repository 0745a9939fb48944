"""What a Kafka client is told: servers, group and configuration, checked, and printed without its secrets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from monolith.errors import MonolithError

TOPIC_PREFIX = "conf.topic."
_SECRET_WORDS = ("password", "secret", "token", "key.pem", "jaas", "oauthbearer.config", "api.key")
_OURS = {
    "auto.offset.reset": ("error", "an expired offset must not become a silent jump; say where to begin by `start`"),
    "enable.auto.commit": ("false", "the position belongs to the checkpoint of the model, not to the broker"),
    "enable.auto.offset.store": ("false", "the position belongs to the checkpoint of the model, not to the broker"),
    "enable.partition.eof": ("true", "batches are completed by it"),
    "bootstrap.servers": (None, "say it by `servers`"),
    "metadata.broker.list": (None, "say it by `servers`"),
    "group.id": (None, "say it by `group_id`"),
}


class BrokerError(MonolithError, ConnectionError):
    """The Kafka servers cannot be reached, refuse, or answer with an error; the message names them and says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KafkaSettings:
    """Where the servers are and how to speak to them.

    >>> settings = KafkaSettings(servers="a:9092,b:9092", configuration=("sasl.password=xyz", "client.id=me"))
    >>> settings.servers, settings.configuration["client.id"]
    (('a:9092', 'b:9092'), 'me')
    >>> "xyz" in repr(settings)
    False
    """

    servers: tuple[str, ...] | str
    """Host and port of one or more brokers; text is split at commas."""

    group_id: str = ""
    """Names the consumer to the brokers (access rights, quotas); no offset is ever committed to it."""

    configuration: Mapping[str, str] | Iterable[str] = field(default=(), repr=False)
    """librdkafka's own settings, as a mapping or as "key=value"; the prefix "conf.topic." is for settings of topics."""

    timeout_seconds: float = 30.0
    """How long to wait for servers that do not answer."""

    def __post_init__(self) -> None:
        """Split text, and reject what would break a promise of the source."""
        object.__setattr__(self, "servers", names_in(self.servers, "servers"))
        object.__setattr__(self, "configuration", _parse(self.configuration))
        if self.timeout_seconds <= 0:
            raise ValueError(f"timeout_seconds must be positive, got {self.timeout_seconds}")

    @property
    def where(self) -> str:
        """The servers, for messages."""
        return ",".join(self.servers)

    def consumer(self) -> dict[str, str | int | bool]:
        """Return librdkafka's configuration of a consumer."""
        ours = {key: value for key, (value, _) in _OURS.items() if value is not None}
        # Without a group librdkafka makes no consumer, though nothing is ever asked of the group.
        # Records have checksums, which it does not look at by itself.
        return {"check.crcs": True, **self._client(), **ours, "group.id": self.group_id or "monolith"}

    def producer(self) -> dict[str, str | int | bool]:
        """Return librdkafka's configuration of a producer that neither loses nor repeats a record."""
        milliseconds = max(1, int(self.timeout_seconds * 1000))
        return {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": milliseconds, **self._client()}

    def redact(self, text: str) -> str:
        """Return the text with every secret of the configuration blotted out.

        >>> KafkaSettings(servers="a:1", configuration={"sasl.password": "xyz"}).redact("wrong password xyz")
        'wrong password ***'
        """
        for key, value in self._parsed.items():
            if value and any(word in key.lower() for word in _SECRET_WORDS):
                text = text.replace(value, "***")
        return text

    def _client(self) -> dict[str, str | int | bool]:
        # librdkafka writes a line to stderr for every failed connection; callers get errors and warnings instead.
        quiet: dict[str, str | int | bool] = {"log_level": 0}
        return {**quiet, **self._parsed, "bootstrap.servers": self.where}

    @property
    def _parsed(self) -> Mapping[str, str]:
        assert isinstance(self.configuration, Mapping)
        return self.configuration


def names_in(names: Iterable[str] | str, what: str) -> tuple[str, ...]:
    """Return names given as a sequence or as text with commas; ValueError if there is none, or one twice.

    >>> names_in("a, b", "topics")
    ('a', 'b')
    """
    parts = names.split(",") if isinstance(names, str) else list(names)
    found = tuple(part.strip() for part in parts if part.strip())
    if not found or len(set(found)) != len(found):
        raise ValueError(f"{what} must be one or more different names, got {names!r}")
    return found


def _parse(configuration: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(configuration, str):
        raise TypeError("configuration must be a mapping or a sequence of 'key=value', got one text")
    if isinstance(configuration, Mapping):
        pairs = [(str(key), str(value)) for key, value in configuration.items()]
    else:
        entries = [entry.partition("=") for entry in configuration]
        # The entry is not printed: it may be a secret.
        bad = [place for place, (key, equals, _) in enumerate(entries) if not key.strip() or not equals]
        if bad:
            raise ValueError(f"configuration entry {bad[0]} must be 'key=value'; it has no key or no '='")
        pairs = [(key.strip(), value.strip()) for key, _, value in entries]
    parsed = {key.removeprefix(TOPIC_PREFIX): value for key, value in pairs}
    for key, (ours, reason) in _OURS.items():
        if key in parsed and parsed[key].lower() != ours:
            told = f"always {ours!r} here" if ours else "not set by the configuration"
            raise ValueError(f"configuration {key!r} is {told}: {reason}")
    return parsed
