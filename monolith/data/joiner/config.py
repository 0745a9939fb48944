"""JoinConfig: which events belong together, how long to wait for them, and which negatives to keep."""

from dataclasses import dataclass
from typing import Literal

from monolith.data.schema import Schema
from monolith.data.source import OnError

IMPRESSION = 0
ACTION = 1
NEW_COLUMNS = {"actions": "int64[]", "label": "float32", "sample_rate": "float32"}


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinConfig:
    """How impressions and actions are joined; times are whole seconds of the events' own clock.

    >>> JoinConfig(key=("req_id", "item_id"), window_seconds=1600).step_seconds
    100
    """

    key: tuple[str, ...]
    """Columns (int64 or bytes) that an impression and its actions have in common."""

    window_seconds: int
    """An action at time a belongs to an impression at time t if t <= a <= t + window_seconds."""

    allowed_lateness_seconds: int = 0
    """An event may be this much older than the newest event before it in its partition; older ones are dropped."""

    batch_seconds: int | None = None
    """One batch has the impressions whose windows end in the same period of this length; they wait for each other. The
    work per event grows with window_seconds / batch_seconds. None is a sixteenth of the window, at least a second."""

    positive_actions: tuple[int, ...] | None = None
    """Action codes that make the label 1; None means any."""

    negative_keep_rate: float = 1.0
    """Share of the impressions with label 0 that is kept; see `corrected_logit`."""

    seed: int = 0
    """Which negatives are kept is decided by it and the key alone."""

    num_partitions: int | None = 1
    """Partitions of the input; the slowest one decides what is complete. None takes all batches as one sequence, in
    the order in which they come: for files that follow each other."""

    max_skew_seconds: int | None = None
    """A partition that is so far behind the newest one (an empty or idle one) is no longer waited for; what it brings
    then may be late. None waits for ever, and keeps in memory what the others bring."""

    at_end: Literal["keep", "flush"] = "keep"
    """When the input ends, windows stay open for a run that goes on with more ("keep"), or all are closed ("flush":
    for data that is complete)."""

    on_error: OnError = "raise"
    """What to do with an event of no known kind or with an impossible time; skipped ones are counted."""

    time: str = "req_time"
    """Column of the event's time, int64 seconds."""

    kind: str = "kind"
    """Column that tells impressions (0) from actions (1), int64."""

    action: str = "action"
    """Column of the action's code, int64; of no meaning in impressions."""

    name: str = "joined"
    """The partition that output batches say they are of."""

    def __post_init__(self) -> None:
        """Reject numbers that mean nothing."""
        if not self.key:
            raise ValueError("key must name at least one column, such as ('req_id',)")
        for name in ("window_seconds", "batch_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, got {value}")
        for name in ("allowed_lateness_seconds", "max_skew_seconds"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 < self.negative_keep_rate <= 1:
            raise ValueError(f"negative_keep_rate must be above 0 and at most 1, got {self.negative_keep_rate}")
        if self.num_partitions is not None and self.num_partitions <= 0:
            raise ValueError(f"num_partitions must be positive or None, got {self.num_partitions}")

    @property
    def step_seconds(self) -> int:
        """Seconds of window ends per batch, the default put in."""
        return self.batch_seconds or max(1, self.window_seconds // 16)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the columns of joined events; ValueError if the input lacks one, or has one of the new ones."""
        columns = dict(schema.columns)
        for name in (self.time, self.kind, self.action):
            if columns.get(name) != "int64":
                raise ValueError(f"the joiner needs an int64 column {name!r}, the input has {columns}")
        for name in self.key:
            if columns.get(name) not in ("int64", "hash", "bytes"):
                raise ValueError(
                    f"the joiner's key needs a column {name!r} of int64, hash or bytes, the input has {columns}"
                )
        left = schema.without(self.kind, self.action)
        clash = sorted(set(left.names) & set(NEW_COLUMNS))
        if clash:
            raise ValueError(f"the input has columns {', '.join(clash)}, which the joiner makes: rename or remove them")
        return left.with_columns(**NEW_COLUMNS)
