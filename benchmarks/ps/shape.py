"""The table that both processes know."""

from __future__ import annotations

from monolith.embedding import AdagradOptimizer, Segment, TableConfig


def table_configs(dim: int) -> dict[str, TableConfig]:
    """Return the one table: fp32 rows that learn by Adagrad."""
    segment = Segment(dim=dim, optimizer=AdagradOptimizer(learning_rate=0.01))
    return {"benchmark": TableConfig(name="benchmark", segments=(segment,))}
