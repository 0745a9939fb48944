"""A table as the original describes it: a message, and learning rates beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from monolith.embedding.config.learning_rate import LearningRate, check_learning_rate, learning_rate_at
from monolith.embedding.config.segment import Segment
from monolith.embedding.config.table import TableConfig
from monolith.protos.embedding_hash_table_pb2 import EmbeddingHashTableConfig


@dataclass(frozen=True)
class CuckooHashTableConfig:
    """Size and eviction of a table, without its segments.

    The name is the original's; it says nothing about how rows are found here.
    """

    initial_capacity: int = 1
    """Rows the table has room for before it first grows."""

    feature_evict_every_n_hours: int = 0
    """Hours between removals of expired rows; 0 never removes any."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.initial_capacity < 1:
            raise ValueError(f"CuckooHashTableConfig: initial_capacity must be at least 1, got {self.initial_capacity}")
        if self.feature_evict_every_n_hours < 0:
            raise ValueError(
                "CuckooHashTableConfig: feature_evict_every_n_hours must not be negative (0 never evicts), got "
                f"{self.feature_evict_every_n_hours}"
            )

    def as_proto(self, segments: Sequence[Segment] = ()) -> EmbeddingHashTableConfig:
        """Return the message of a table with these segments."""
        config = EmbeddingHashTableConfig(initial_capacity=self.initial_capacity)
        config.cuckoo.SetInParent()
        if self.feature_evict_every_n_hours > 0:
            config.enable_feature_eviction = True
            config.feature_evict_every_n_hours = self.feature_evict_every_n_hours
        for segment in segments:
            config.entry_config.segments.append(segment.as_proto())
        return config

    def as_table_config(self, name: str, segments: Sequence[Segment]) -> TableConfig:
        """Return the table of this name with these segments."""
        return TableConfig.from_proto(self.as_proto(segments), name=name)


class HashTableConfigInstance:
    """A table's message with one learning rate per segment.

    Its string is the merge key: tables whose strings are equal may share rows. Instances compare by it.
    """

    def __init__(
        self,
        table_config: EmbeddingHashTableConfig,
        learning_rate_fns: Sequence[LearningRate],
        extra_restore_names: Sequence[str] | None = None,
    ) -> None:
        """Keep message and learning rates together.

        Args:
            table_config: what the table is made of.
            learning_rate_fns: a number or a function of the global step per segment.
            extra_restore_names: older names under which a snapshot may hold this table.
        """
        if not learning_rate_fns:
            raise ValueError("Learning_rate_fns must be not empty.")
        for rate in learning_rate_fns:
            check_learning_rate("HashTableConfigInstance", rate)
        self.table_config = table_config
        self.learning_rate_fns = tuple(learning_rate_fns)
        self.extra_restore_names = list(extra_restore_names or ())

    def __str__(self) -> str:
        """Return the key by which tables are merged."""
        return str(
            (self.table_config.SerializeToString(deterministic=True), [str(fn) for fn in self.learning_rate_fns])
        )

    def __repr__(self) -> str:
        """Return the parts, readable."""
        return (
            f"HashTableConfigInstance({str(self.table_config)!r}, {self.learning_rate_fns!r}, "
            f"extra_restore_names={self.extra_restore_names!r})"
        )

    def __eq__(self, other: object) -> bool:
        """Return whether the two may share a table."""
        return str(self) == str(other) if isinstance(other, HashTableConfigInstance) else NotImplemented

    def __hash__(self) -> int:
        """Return the hash of the merge key."""
        return hash(str(self))

    def call_learning_rate_fns(self, global_step: int = 0) -> list[float]:
        """Return the learning rate of each segment at the step."""
        return [learning_rate_at("HashTableConfigInstance", rate, global_step) for rate in self.learning_rate_fns]

    def as_table_config(self, name: str) -> TableConfig:
        """Return the same table as a :class:`TableConfig`; raises if a segment has no learning rate or two."""
        config = TableConfig.from_proto(self.table_config, name=name, learning_rates=self.learning_rate_fns)
        return replace(config, extra_restore_names=tuple(self.extra_restore_names))
