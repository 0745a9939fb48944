"""What every trainer of clicks is told: where the records are, and how large nets and tables are.

Needs the standard library alone, because peers import it in environments of their own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NUM_FEATURES = 26
NUM_DENSE = 13
ID_NAMES = tuple(f"C{number}" for number in range(1, NUM_FEATURES + 1))
MODELS = ("deepfm", "dlrm")
BOTTOM_WIDTH = 64
"""Of DLRM's hidden layer under the numbers."""


@dataclass(frozen=True, kw_only=True)
class ClickShape:
    """One model of clicks and its records; plain values, as they go to a peer as JSON."""

    model: str

    folder: str
    """Holds `round-SEED.tfrecord` for every seed: the tf.Examples of one round."""

    batch_size: int

    num_steps: int
    """Batches per round."""

    table_rows: tuple[int, ...]
    """Rows of each feature's table where tables have a fixed size; an id's row is the rest of its division by it."""

    dim: int

    hidden: tuple[int, ...]

    learning_rate: float

    row_learning_rate: float

    row_scale: float
    """First values of rows lie within plus and minus this."""

    accumulator: float
    """First value of the rows' Adagrad sums."""

    num_threads: int

    @property
    def row_width(self) -> int:
        """Floats of a row: DeepFM has the weight of the single id in it, as its last one."""
        return self.dim + (self.model == "deepfm")

    def records(self, seed: int) -> str:
        """Return the path of a round's records."""
        return str(Path(self.folder) / f"round-{seed}.tfrecord")

    def as_settings(self) -> dict[str, Any]:
        """Return the JSON form that a peer's setup takes."""
        return asdict(self)

    @classmethod
    def of(cls, settings: dict[str, Any]) -> ClickShape:
        """Return the shape of a JSON form."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()})
