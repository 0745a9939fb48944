"""The table that all processes know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monolith.embedding import AdagradOptimizer, Segment, TableConfig


def table_configs(dim: int) -> dict[str, TableConfig]:
    """Return the one table: fp32 rows that learn by Adagrad."""
    segment = Segment(dim=dim, optimizer=AdagradOptimizer(learning_rate=0.01))
    return {"benchmark": TableConfig(name="benchmark", segments=(segment,))}


def chosen_rows(num_rows: int, count: int, *, seed: int) -> NDArray[np.int64]:
    """Return the numbers of some rows, all different."""
    rows: NDArray[Any] = np.random.default_rng(seed).choice(num_rows, count, replace=False)
    return rows.astype(np.int64)
