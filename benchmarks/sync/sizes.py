"""How much the benchmark of synchronous training measures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measure import MIN_ROUNDS
from benchmarks.peers.clicks.shape import ClickShape
from monolith.data import CriteoEvents

WARMUP_ROUNDS = 2
NUM_RANKS = 2
WORLD = 11
"""Seed of the events."""


@dataclass(frozen=True, kw_only=True)
class SyncSizes:
    """DLRM and its events; the defaults are the full benchmark."""

    num_ids: int = 50_000_000
    max_table_rows: int = 200_000
    batch_size: int = 4096
    """Of a rank; one process trains on the batches of all ranks as one."""

    num_steps: int = 6
    """Batches per round."""

    rounds: int = MIN_ROUNDS
    dim: int = 16
    hidden: tuple[int, ...] = (256, 64)
    num_threads: int = 1
    """Of a rank; one process has as many as all ranks."""

    swapped_bytes: tuple[int, ...] = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23)
    """Sizes of pieces that two ranks send each other, for the model of the cost."""

    swapping_ranks: tuple[int, ...] = (2, 4, 8)
    """Ranks that send each other the smallest pieces, for the model of the cost."""

    @property
    def num_seeds(self) -> int:
        """Rounds, warm-up included."""
        return self.rounds + WARMUP_ROUNDS

    def settings(self, *, num_together: int = 1) -> dict[str, Any]:
        """Return what a process is told that trains on the batches of `num_together` ranks as one."""
        sizes = CriteoEvents(WORLD, num_ids=self.num_ids).vocabulary_sizes
        shape = ClickShape(
            model="dlrm",
            folder="",
            batch_size=self.batch_size * num_together,
            num_steps=self.num_steps,
            table_rows=tuple(min(size, self.max_table_rows) for size in sizes),
            dim=self.dim,
            hidden=self.hidden,
            learning_rate=0.01,
            row_learning_rate=0.05,
            row_scale=0.01,
            accumulator=0.1,
            num_threads=self.num_threads * num_together,
        )
        return {"shape": asdict(shape), "num_ids": self.num_ids, "num_rounds": self.num_seeds}


FULL = SyncSizes()
QUICK = SyncSizes(max_table_rows=50_000, num_steps=3)
SMOKE = SyncSizes(
    num_ids=50_000,
    max_table_rows=500,
    batch_size=64,
    num_steps=1,
    dim=4,
    hidden=(8, 4),
    swapped_bytes=(1 << 10, 1 << 14),
    swapping_ranks=(2, 3),
)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
