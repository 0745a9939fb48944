"""The ids of a training round, the same for every contender: features x batch, one id per bag."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.ids import Distribution, Int64Array, random_rows


@dataclass(frozen=True, kw_only=True)
class TrainingShape:
    """What one training round consists of."""

    num_features: int

    rows_per_feature: int
    """Each feature has a table of its own with this many rows, all of them present before the first round."""

    dim: int

    batch_size: int

    num_steps: int
    """Steps per round, each with fresh ids, so that a round is long enough to time."""

    @property
    def ids_per_round(self) -> int:
        """How many ids one round looks up and trains."""
        return self.num_steps * self.num_features * self.batch_size

    def as_settings(self) -> dict[str, Any]:
        """Return the JSON form that a peer's setup takes."""
        return asdict(self)

    def rows(self, seed: int, distribution: Distribution) -> Int64Array:
        """Return row numbers as [num_steps, num_features, batch_size]."""
        rows = random_rows(seed, self.ids_per_round, self.rows_per_feature, distribution)
        return rows.reshape(self.num_steps, self.num_features, self.batch_size)
