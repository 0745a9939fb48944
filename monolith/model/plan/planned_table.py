"""What a lookup plan says of one table and of one feature: the slices of rows, admission, expiry, how they combine."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Self

from google.protobuf.json_format import MessageToDict, ParseDict

from monolith.embedding import LearningRate, PolynomialDecay, Segment, TableConfig
from monolith.embedding.admission import AdmissionConfig
from monolith.model.plan.feature_column import CombinerName, check_combiner
from monolith.protos.embedding_hash_table_pb2 import EntryConfig

_DECAY_FIELDS = ("initial_learning_rate", "decay_steps", "end_learning_rate", "power", "cycle")
_NUMBERS = ("occurrence_threshold", "expire_days", "filter_capacity")
_ADMISSION = ("kind", "split_num", "equal_probability")
DEFAULT_ADMISSION = AdmissionConfig()


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """One slice of a feature's rows."""

    name: str
    """Name of the slice."""

    segment: Segment
    """Its width, and its rules."""

    learning_rate: LearningRate | None = None
    """Instead of the optimizer's own."""

    def __post_init__(self) -> None:
        """Reject a learning rate that cannot be written down: the plan is part of every snapshot."""
        if not isinstance(self.learning_rate, int | float | PolynomialDecay | None):
            raise TypeError(
                f"slice {self.name!r}: a learning rate in a plan is a number or a PolynomialDecay, got "
                f"{self.learning_rate!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the slice as JSON values."""
        rate: Any = self.learning_rate
        if isinstance(rate, PolynomialDecay):
            rate = {"polynomial_decay": {name: getattr(rate, name) for name in _DECAY_FIELDS}}
        return {"name": self.name, "segment": MessageToDict(self.segment.as_proto()), "learning_rate": rate}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the slice that `to_dict` described."""
        rate = values["learning_rate"]
        if isinstance(rate, Mapping):
            rate = PolynomialDecay(**{name: rate["polynomial_decay"][name] for name in _DECAY_FIELDS})
        segment = Segment.from_proto(ParseDict(values["segment"], EntryConfig.Segment()))
        return cls(str(values["name"]), segment, rate)


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """One table: its rows are slices side by side."""

    name: str
    """Name of the table: that of its feature, or of the one whose table others share."""

    slices: tuple[PlannedSlice, ...]
    """In the order in which the model first asked for them."""

    occurrence_threshold: int = 0
    """An id gets a row after it was seen this often."""

    expire_days: int = 36500
    """A row is forgotten this many days after its last update."""

    filter_capacity: int = 0
    """Different ids whose sightings are counted; 0 where there is no threshold."""

    admission: AdmissionConfig = DEFAULT_ADMISSION
    """How they are counted; its capacity is not used."""

    # How a process finds and keeps the rows is no part of what they mean: another run may choose anew, so nothing
    # compares or writes the next three.
    evict_every_hours: int = field(default=0, compare=False)
    """Hours of event time between removals of expired rows; 0 leaves it to the run."""

    initial_capacity: int = field(default=1, compare=False)
    """Rows the table has room for before it first grows."""

    extra_restore_names: tuple[str, ...] = field(default=(), compare=False)
    """Older names under which a snapshot may have the table."""

    def slice_places(self) -> dict[str, tuple[int, int]]:
        """Return where each slice begins in a row, and its width."""
        ends = accumulate(one.segment.dim for one in self.slices)
        return {one.name: (end - one.segment.dim, one.segment.dim) for one, end in zip(self.slices, ends, strict=True)}

    def table_config(self) -> TableConfig:
        """Return the configuration of the table.

        Its seed comes from the name: equal ids of two tables must not start from equal rows.
        """
        rates: tuple[LearningRate, ...] = ()
        if any(one.learning_rate is not None for one in self.slices):
            rates = tuple(
                one.segment.optimizer.learning_rate_fn() if one.learning_rate is None else one.learning_rate
                for one in self.slices
            )
        return TableConfig(
            name=self.name,
            segments=tuple(one.segment for one in self.slices),
            initial_capacity=self.initial_capacity,
            expire_days=self.expire_days,
            seed=hash64(self.name),
            extra_restore_names=self.extra_restore_names,
            learning_rates=rates,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        # Left out where it is the default: plans that were written before there was a choice keep their hash.
        admission = {
            name: getattr(self.admission, name)
            for name in _ADMISSION
            if getattr(self.admission, name) != getattr(DEFAULT_ADMISSION, name)
        }
        others = {"admission": admission} if admission else {}
        return {"name": self.name, **numbers, **others, "slices": [one.to_dict() for one in self.slices]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the table that `to_dict` described."""
        slices = tuple(PlannedSlice.from_dict(one) for one in values["slices"])
        admission = AdmissionConfig(**values.get("admission", {}))
        numbers: dict[str, Any] = {name: int(values[name]) for name in _NUMBERS}
        return cls(str(values["name"]), slices, **numbers, admission=admission)


@dataclass(frozen=True, slots=True)
class PlannedFeature:
    """One feature: where the rows of its ids are, and how those of one event become what the model reads."""

    name: str
    """Name of the column of ids."""

    table: str
    """Name of the table."""

    slices: tuple[str, ...]
    """The slices it reads, in the order in which the model first asked for them."""

    combiner: CombinerName = "reduce_sum"
    """How the rows of one event's ids are combined."""

    max_seq_length: int = 0
    """Length of the sequence that `first_n` makes; 0 with other combiners."""

    def to_dict(self) -> dict[str, Any]:
        """Return the feature as JSON values."""
        return {
            "name": self.name,
            "table": self.table,
            "slices": list(self.slices),
            "combiner": self.combiner,
            "max_seq_length": self.max_seq_length,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the feature that `to_dict` described."""
        combiner = check_combiner(str(values["name"]), values["combiner"], int(values["max_seq_length"]))
        slices = tuple(str(name) for name in values["slices"])
        return cls(str(values["name"]), str(values["table"]), slices, combiner, int(values["max_seq_length"]))


def hash64(text: str) -> int:
    """Return the first 8 bytes of the text's BLAKE2b digest as a little-endian number.

    >>> hex(hash64("uid"))
    '0xce7ee8c717452b7a'
    """
    return int.from_bytes(hashlib.blake2b(text.encode()).digest()[:8], "little")
