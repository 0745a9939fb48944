"""One table: the rows that one or more id features share."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

from monolith.embedding.config.learning_rate import LearningRate, check_learning_rate, learning_rate_at
from monolith.embedding.config.proto_fields import chosen_kind
from monolith.embedding.config.segment import Segment
from monolith.protos.embedding_hash_table_pb2 import EmbeddingHashTableConfig, EntryConfig, SlotExpireTimeConfig

MemoryPolicy = Literal["refuse", "evict_oldest"]

MAX_SLOTS = 1 << 15
"""Slots are the 15 bits above the 48 low bits of an id."""

_POLICY_NUMBERS: dict[MemoryPolicy, EmbeddingHashTableConfig.MemoryPolicy] = {
    "refuse": EmbeddingHashTableConfig.REFUSE,
    "evict_oldest": EmbeddingHashTableConfig.EVICT_OLDEST,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TableConfig:
    """One table: the rows that one or more id features share.

    >>> from monolith.embedding.entry import AdagradOptimizer, Segment
    >>> config = TableConfig(name="uid", segments=(Segment(8, AdagradOptimizer(learning_rate=0.1)),))
    >>> config.dim, config.learning_rate_values(global_step=0)
    (8, [0.1])
    """

    name: str
    """Names the table in files and messages."""

    segments: tuple[Segment, ...]
    """What a row is made of, in order."""

    initial_capacity: int = 1
    """Number of rows whose memory is taken at once, before their ids arrive."""

    expire_days: int = 36500
    """A row expires this many days after its last update; 0 expires it at once."""

    slot_expire_days: Mapping[int, int] = field(default_factory=dict, hash=False)
    """Slots whose rows expire after another number of days."""

    evict_every_hours: int = 0
    """Hours between removals of expired rows; 0 leaves them until a snapshot drops them."""

    skip_zero_embedding: bool = False
    """Assigning or restoring a row that reads as zeros removes it; serving tables only."""

    serving: bool = False
    """Rows are stored compressed and without optimizer state: they can be read and assigned, not trained."""

    max_memory_bytes: int | None = None
    """The table never takes more; None sets no limit."""

    memory_policy: MemoryPolicy = "refuse"
    """At the limit a new id is refused, or takes the place of the row that was updated longest ago."""

    seed: int = 0
    """Start of every random choice of the table."""

    extra_restore_names: tuple[str, ...] = ()
    """Older names under which files may hold the rows, where there are none under its own."""

    learning_rates: tuple[LearningRate, ...] = ()
    """One number or function of the global step per segment; when empty, each optimizer's own."""

    # Found at first use and kept: every step asks every table for them.
    _rates: tuple[LearningRate, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        # Own, immutable or copied: a caller's list or dict must not change the config behind our back.
        object.__setattr__(self, "segments", tuple(self.segments))
        object.__setattr__(self, "learning_rates", tuple(self.learning_rates))
        object.__setattr__(self, "extra_restore_names", older_names(self._label, self.extra_restore_names))
        object.__setattr__(self, "slot_expire_days", dict(self.slot_expire_days))
        if not self.name:
            raise ValueError("table: name must not be empty")
        self._check_segments()
        self._check_range("initial_capacity", self.initial_capacity, 1, 1 << 64)
        self._check_range("evict_every_hours", self.evict_every_hours, 0, 1 << 31)
        self._check_range("seed", self.seed, 0, 1 << 64)
        self._check_expiry()
        self._check_memory()
        if self.skip_zero_embedding and not self.serving:
            raise ValueError(
                f"{self._label}: only serving tables support skip_zero_embedding; set serving=True or leave it off"
            )

    @property
    def dim(self) -> int:
        """Width of a row, in floats."""
        return sum(segment.dim for segment in self.segments)

    def learning_rate_values(self, global_step: int) -> list[float]:
        """Return the learning rate of each segment at the step."""
        rates = self._rates
        if rates is None:
            rates = self.learning_rates or tuple(segment.optimizer.learning_rate_fn() for segment in self.segments)
            object.__setattr__(self, "_rates", rates)
        label = self._label
        return [learning_rate_at(label, rate, global_step) for rate in rates]

    def to_proto(self) -> EmbeddingHashTableConfig:
        """Return the message that describes this table; name and learning rates have no place in it."""
        config = EmbeddingHashTableConfig(
            entry_config=EntryConfig(
                segments=[segment.as_proto() for segment in self.segments],
                entry_type=EntryConfig.SERVING if self.serving else EntryConfig.TRAINING,
            ),
            initial_capacity=self.initial_capacity,
            slot_expire_time_config=self._expiry_proto(),
            skip_zero_embedding=self.skip_zero_embedding,
        )
        config.cuckoo.SetInParent()
        if self.evict_every_hours > 0:
            config.enable_feature_eviction = True
            config.feature_evict_every_n_hours = self.evict_every_hours
        if self.max_memory_bytes is not None:
            config.max_memory_bytes = self.max_memory_bytes
            config.memory_policy = _POLICY_NUMBERS[self.memory_policy]
        if self.seed:
            config.seed = self.seed
        return config

    @classmethod
    def from_proto(
        cls, config: EmbeddingHashTableConfig, *, name: str, learning_rates: Sequence[LearningRate] = ()
    ) -> Self:
        """Return the table a message describes.

        The message's ``entry_type`` (packed or raw) is ignored: it says how the original laid out its memory.
        """
        try:
            chosen_kind(config)
        except ValueError as error:
            raise ValueError(f"table {name!r}: unknown type of hash table: {error}") from None
        entry = config.entry_config
        if entry.entry_type == EntryConfig.UNKNOWN:
            raise ValueError(f"table {name!r}: entry_type is UNKNOWN; set TRAINING or SERVING")
        serving = entry.entry_type == EntryConfig.SERVING
        expiry = config.slot_expire_time_config
        return cls(
            name=name,
            segments=tuple(Segment.from_proto(segment, serving=serving) for segment in entry.segments),
            initial_capacity=config.initial_capacity,
            expire_days=expiry.default_expire_time,
            slot_expire_days={one.slot: one.expire_time for one in expiry.slot_expire_times},
            evict_every_hours=config.feature_evict_every_n_hours if config.enable_feature_eviction else 0,
            skip_zero_embedding=config.skip_zero_embedding,
            serving=serving,
            max_memory_bytes=config.max_memory_bytes if config.HasField("max_memory_bytes") else None,
            memory_policy="evict_oldest" if config.memory_policy == EmbeddingHashTableConfig.EVICT_OLDEST else "refuse",
            seed=config.seed,
            learning_rates=tuple(learning_rates),
        )

    @property
    def _label(self) -> str:
        return f"table {self.name!r}"

    def _expiry_proto(self) -> SlotExpireTimeConfig:
        expiry = SlotExpireTimeConfig(default_expire_time=self.expire_days)
        for slot, days in sorted(self.slot_expire_days.items()):
            expiry.slot_expire_times.add(slot=slot, expire_time=days)
        return expiry

    def _check_segments(self) -> None:
        if not self.segments:
            raise ValueError(f"{self._label}: a row needs at least one segment; segments is empty")
        for segment in self.segments:
            if not isinstance(segment, Segment):
                raise TypeError(f"{self._label}: segments must hold Segment objects, got {segment!r}")
        if self.learning_rates and len(self.learning_rates) != len(self.segments):
            raise ValueError(
                f"{self._label}: Size of learning_rate_fns and size of segments must be equal. "
                f"Got {len(self.learning_rates)} and {len(self.segments)}."
            )
        for rate in self.learning_rates:
            check_learning_rate(self._label, rate)

    def _check_expiry(self) -> None:
        self._check_range("expire_days", self.expire_days, 0, 1 << 32)
        for slot, days in self.slot_expire_days.items():
            self._check_range("a slot of slot_expire_days", slot, 0, MAX_SLOTS)
            self._check_range(f"slot_expire_days[{slot}]", days, 0, 1 << 32)

    def _check_memory(self) -> None:
        if self.memory_policy not in get_args(MemoryPolicy):
            options = " or ".join(map(repr, get_args(MemoryPolicy)))
            raise ValueError(f"{self._label}: memory_policy must be {options}, got {self.memory_policy!r}")
        if self.max_memory_bytes is not None:
            self._check_range("max_memory_bytes", self.max_memory_bytes, 1, 1 << 64)
        elif self.memory_policy != "refuse":
            warnings.warn(
                f"{self._label}: memory_policy={self.memory_policy!r} does nothing without max_memory_bytes",
                stacklevel=4,
            )

    def _check_range(self, what: str, value: int, low: int, end: int) -> None:
        if not isinstance(value, int):
            raise TypeError(f"{self._label}: {what} must be an integer, got {value!r}")
        if not low <= value < end:
            raise ValueError(f"{self._label}: {what} must be at least {low} and below {end}, got {value}")


def older_names(label: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the older names of a table; one text alone, which would be taken for its letters, is a TypeError."""
    if isinstance(names, str):
        raise TypeError(f"{label}: extra_restore_names must be a list of names, got {names!r}; write [{names!r}]")
    return tuple(names)
