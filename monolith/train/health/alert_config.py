"""AlertConfig: what a run alerts about, and how often."""

from dataclasses import dataclass
from typing import Self

from google.protobuf import text_format

from monolith.protos.alert_pb2 import AlertProto


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertConfig:
    """What a run alerts about, and how often. A chief also alerts about parameter servers that are not well.

    >>> AlertConfig.of("monolith_alert_proto", "training_alert { prefix: 'movies' } check_interval_sec: 60")
    AlertConfig(training=True, prefix='movies', users=(), start_delay_seconds=0, check_interval_seconds=60)
    """

    training: bool = False
    """Alert if the run takes no step between two checks."""

    prefix: str | None = None
    """What the name of the counter begins with; None: as those of other metrics."""

    users: tuple[str, ...] = ()
    """Whom an alert is for: in its line of the log, and a label of its counter."""

    start_delay_seconds: int = 0
    """The first check is this long after the start."""

    check_interval_seconds: int = 1800
    """Time between two checks."""

    @classmethod
    def of(cls, setting: str, text: str) -> Self | None:
        """Return what the text form of an `AlertProto` says; None if it is empty.

        Raises:
            ValueError: the text is none, or asks for what cannot be; the message names the setting.
        """
        if not text:
            return None
        try:
            said = text_format.Parse(text, AlertProto())
        except text_format.ParseError as error:
            raise ValueError(
                f'{setting}={text!r} is no AlertProto in text form ({error}); write, such as, "training_alert {{}} '
                'check_interval_sec: 600"'
            ) from error
        if said.HasField("kafka_alert"):
            raise ValueError(
                f"{setting}: kafka_alert watches how far a consumer group is behind, and a run commits no offsets to "
                "its group, since they are part of snapshots; leave it out, training_alert notices a run without events"
            )
        for user in said.alert_message.user:
            if not user or "|" in user:
                raise ValueError(
                    f"{setting}: the user of alert_message is a label of a counter, without |, got {user!r}"
                )
        return cls(
            training=said.HasField("training_alert"),
            prefix=said.training_alert.prefix or None,
            users=tuple(said.alert_message.user),
            start_delay_seconds=_at_least(0, setting, "start_delay_sec", said.start_delay_sec),
            check_interval_seconds=_at_least(1, setting, "check_interval_sec", said.check_interval_sec),
        )


def _at_least(least: int, setting: str, name: str, value: int) -> int:
    if value < least:
        raise ValueError(f"{setting}: {name} must be at least {least}, got {value}")
    return value
