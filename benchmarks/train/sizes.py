"""How much the train benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.machine import num_cores
from benchmarks.measure import MIN_ROUNDS
from benchmarks.peers.clicks.shape import ClickShape
from monolith.data import CriteoEvents

WARMUP_ROUNDS = 2
_FLOAT_BYTES = 4
_WORLD = 11
"""Seed of the events."""


@dataclass(frozen=True, kw_only=True)
class TrainSizes:
    """Numbers of events, ids and rounds; the defaults are the full benchmark."""

    num_ids: int = 50_000_000
    """Different ids that events may have, over all 26 features: 3 in the smallest, 24 million in the largest."""

    max_table_rows: int = 1_000_000
    """Rows of a feature's table at the start; smaller features have all their ids. Peers' tables stay at this size."""

    batch_size: int = 4096

    num_steps: int = 8
    """Batches per round."""

    rounds: int = MIN_ROUNDS

    dim: int = 16

    hidden: tuple[int, ...] = (256, 64)

    learning_rate: float = 0.01

    row_learning_rate: float = 0.05

    row_scale: float = 0.01

    accumulator: float = 0.1

    num_threads: int = num_cores()
    """Of each trainer."""

    @property
    def num_seeds(self) -> int:
        """Rounds, warm-up included; each has a seed and a file of its own."""
        return self.rounds + WARMUP_ROUNDS

    @property
    def events_per_round(self) -> int:
        """Events that one round trains on."""
        return self.batch_size * self.num_steps

    def world(self) -> CriteoEvents:
        """Return the events that all records are made of."""
        return CriteoEvents(_WORLD, num_ids=self.num_ids)

    def table_rows(self) -> tuple[int, ...]:
        """Return the rows of each feature's table at the start."""
        return tuple(min(size, self.max_table_rows) for size in self.world().vocabulary_sizes)

    def shape(self, model: str, folder: str) -> ClickShape:
        """Return what the trainers of one model are told."""
        return ClickShape(
            model=model,
            folder=folder,
            batch_size=self.batch_size,
            num_steps=self.num_steps,
            table_rows=self.table_rows(),
            dim=self.dim,
            hidden=self.hidden,
            learning_rate=self.learning_rate,
            row_learning_rate=self.row_learning_rate,
            row_scale=self.row_scale,
            accumulator=self.accumulator,
            num_threads=self.num_threads,
        )

    def memory_bytes(self) -> int:
        """Return what four trainers with rows and sums need, about, and twice that while they fill their tables."""
        return 8 * sum(self.table_rows()) * 2 * (self.dim + 4) * _FLOAT_BYTES


FULL = TrainSizes()
QUICK = TrainSizes(max_table_rows=400_000, num_steps=3)
SMOKE = TrainSizes(num_ids=50_000, max_table_rows=1_000, batch_size=64, num_steps=1, dim=4, hidden=(8, 4))
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
