"""How much the table benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.ids import ZIPF_EXPONENT
from benchmarks.measure import MIN_ROUNDS
from benchmarks.peers.training_ids import TrainingShape

_FLOAT_BYTES = 4
_ROW_OVERHEAD_BYTES = 64


@dataclass(frozen=True, kw_only=True)
class TableSizes:
    """Numbers of rows, ids and rounds; the defaults are the full benchmark."""

    num_rows: int = 10_000_000
    """Rows of each lookup table, and of all training tables together."""

    dims: tuple[int, ...] = (16, 32, 64)

    batch_size: int = 262_144
    """Ids of one lookup or insert against a peer."""

    rounds: int = MIN_ROUNDS

    num_features: int = 26

    training_dim: int = 16

    training_batch_size: int = 4096
    """Ids per feature and step, one per bag."""

    training_steps: int = 4
    """Steps per round."""

    growth_rows: tuple[int, ...] = (1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000)
    """Sizes at which a growing table is compared with one of the first size."""

    growth_dim: int = 16

    growth_batch_size: int = 65_536
    """Ids of one insert while growing."""

    zipf_exponent: float = ZIPF_EXPONENT
    """Stated for the reader; the generator's constant."""

    def training_shape(self) -> TrainingShape:
        """Return the shape that all training contenders share."""
        return TrainingShape(
            num_features=self.num_features,
            rows_per_feature=self.num_rows // self.num_features,
            dim=self.training_dim,
            batch_size=self.training_batch_size,
            num_steps=self.training_steps,
        )

    def memory_bytes(self) -> int:
        """Return what the largest stage needs, about: two plain arrays and a table with state, or the grown table."""
        widest = max(self.dims) * _FLOAT_BYTES
        lookup = self.num_rows * (4 * widest + _ROW_OVERHEAD_BYTES)
        growth = self.growth_rows[-1] * (2 * self.growth_dim * _FLOAT_BYTES + _ROW_OVERHEAD_BYTES)
        return max(lookup, growth)


FULL = TableSizes()
QUICK = TableSizes(num_rows=1_000_000, growth_rows=(250_000, 500_000, 1_000_000, 2_000_000), growth_batch_size=16_384)
SMOKE = TableSizes(
    num_rows=5_000, dims=(16,), batch_size=512, num_features=2, training_batch_size=64, training_steps=1,
    growth_rows=(1_000, 4_000), growth_batch_size=256,
)  # fmt: skip
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
