"""An id feature of a model, with admission and expiry of its rows."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from monolith.embedding import (
    AdagradOptimizer,
    Compressor,
    Fp32Compressor,
    Initializer,
    Optimizer,
    RandomUniformInitializer,
)
from monolith.embedding.config.table import older_names

DEFAULT_OPTIMIZER = AdagradOptimizer(learning_rate=0.05)
DEFAULT_INITIALIZER = RandomUniformInitializer(-0.05, 0.05)
DEFAULT_COMPRESSOR = Fp32Compressor()

DEFAULT_FILTER_CAPACITY = 10_000_000
"""Ids whose sightings are remembered: about 24 MB when full."""

MAX_OCCURRENCE_THRESHOLD = 15
"""The sliding filter's counters end there."""

CombinerName: TypeAlias = Literal["reduce_sum", "reduce_mean", "sqrtn", "first_n"]
"""Sum; sum / count; sum / sqrt(count); a sequence of the first ids' rows, cut or padded with zeros."""

# The name is part of file names, on any file system and object store.
_NAME = re.compile(r"\w[\w.+:-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureColumn:
    """One id feature: its table, and the defaults of the slices that are looked up in it."""

    name: str
    """Name of the column of ids, and of the table."""

    occurrence_threshold: int = 0
    """An id gets a row after it was seen this often; until then it reads as zeros."""

    expire_time: int = 36500
    """Days without an update after which a row is forgotten."""

    evict_every_hours: int = 0
    """Hours of event time between removals of expired rows; 0 leaves it to the run's `evict_every_seconds`."""

    initial_capacity: int = 1
    """Rows the table has room for before it first grows."""

    filter_capacity: int = DEFAULT_FILTER_CAPACITY
    """Different ids whose sightings are counted at a time, where there is a threshold."""

    combiner: CombinerName = "reduce_sum"
    """How the rows of one event's ids become one row, or a sequence of rows."""

    max_seq_length: int = 0
    """Length of the sequence that the combiner `first_n` makes; 0 with other combiners."""

    shared_name: str | None = None
    """The feature whose table this one shares; None for a table of its own."""

    extra_restore_names: tuple[str, ...] = ()
    """Older names of the feature; a snapshot that has it under one of them is restored."""

    optimizer: Optimizer = DEFAULT_OPTIMIZER
    """How a gradient changes a slice that names no optimizer."""

    initializer: Initializer = DEFAULT_INITIALIZER
    """First values of a slice that names no initializer."""

    compressor: Compressor = DEFAULT_COMPRESSOR
    """How a slice that names no compressor is stored for serving."""

    @property
    def table(self) -> str:
        """Name of the table that has the rows of this feature's ids."""
        return self.shared_name or self.name

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        check_combiner(self.name, self.combiner, self.max_seq_length)
        names = older_names(f"feature {self.name!r}", self.extra_restore_names)
        object.__setattr__(self, "extra_restore_names", names)
        if names and self.shared_name is not None:
            raise ValueError(
                f"feature {self.name!r} shares the table of {self.shared_name!r}; set extra_restore_names of that one"
            )
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"feature {self.name!r}: a name is letters, digits and . + : - _, beginning with a letter or digit; it "
                "becomes part of file names"
            )
        if not 0 <= self.occurrence_threshold <= MAX_OCCURRENCE_THRESHOLD:
            raise ValueError(
                f"feature {self.name!r}: occurrence_threshold must be 0 to {MAX_OCCURRENCE_THRESHOLD}, got "
                f"{self.occurrence_threshold}"
            )
        if self.expire_time < 0:
            raise ValueError(f"feature {self.name!r}: expire_time (days) must not be negative, got {self.expire_time}")
        if self.evict_every_hours < 0:
            raise ValueError(
                f"feature {self.name!r}: evict_every_hours must not be negative, got {self.evict_every_hours}"
            )
        for setting in ("filter_capacity", "initial_capacity"):
            if getattr(self, setting) < 1:
                raise ValueError(f"feature {self.name!r}: {setting} must be positive, got {getattr(self, setting)}")


def check_combiner(feature: str, combiner: object, max_seq_length: int) -> CombinerName:
    """Return the combiner if its name is known and the length fits it."""
    for known in get_args(CombinerName):
        if combiner == known and (max_seq_length > 0) == (known == "first_n"):
            return known  # type: ignore[no-any-return]
    if combiner == "first_n":
        raise ValueError(f"feature {feature!r}: seq_length must be greater than 0, got {max_seq_length}")
    if combiner in get_args(CombinerName):
        raise ValueError(
            f"feature {feature!r}: max_seq_length {max_seq_length} makes a sequence, and combiner {combiner!r} makes "
            "one row; give one of the two"
        )
    raise ValueError(f"feature {feature!r}: combiner must be one of {get_args(CombinerName)}, got {combiner!r}")
