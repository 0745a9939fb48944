"""How much the data benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.measure import MIN_ROUNDS


@dataclass(frozen=True, kw_only=True)
class DataSizes:
    """Numbers of records, batches and rounds; the defaults are the full benchmark."""

    batch_size: int = 4096

    num_batches: int = 16
    """Batches of records that there are; parsing takes them by turns, and every file holds them all."""

    num_files: int = 4

    parsed_batches: int = 8
    """Batches that a round parses, with us and with TensorFlow; protobuf gets one."""

    steps: int = 48
    """Training steps of a round; nothing hides the reading for the first."""

    embedding_dim: int = 8

    hidden: tuple[int, ...] = (64, 32)
    """Widths of the dense layers of the model that is trained."""

    rounds: int = MIN_ROUNDS

    overlap_rounds: int = 31
    """Rounds of reading ahead, whose figure is a small difference of large times: single rounds scatter by a third."""

    @property
    def num_records(self) -> int:
        """Different records."""
        return self.batch_size * self.num_batches


FULL = DataSizes()
QUICK = DataSizes(num_batches=8, num_files=2, parsed_batches=4, steps=16, overlap_rounds=MIN_ROUNDS)
SMOKE = DataSizes(
    batch_size=64, num_batches=2, num_files=2, parsed_batches=1, steps=3, embedding_dim=4, hidden=(8,),
    overlap_rounds=MIN_ROUNDS,
)  # fmt: skip
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
