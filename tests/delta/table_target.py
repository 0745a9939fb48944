"""A serving model reduced to its tables and weights, and tables in training to go with it."""

import numpy as np
import torch

from monolith.embedding import AdagradOptimizer, MultiTable, Segment, TableConfig

DIMS = {"mov": 3, "uid": 5}


def training_tables() -> MultiTable:
    return MultiTable(
        {
            name: TableConfig(name=name, segments=(Segment(dim, AdagradOptimizer(learning_rate=0.1)),))
            for name, dim in DIMS.items()
        }
    )


class TableTarget:
    """What a receiver applies deltas to; `trail` tells in which order."""

    def __init__(self) -> None:
        self.tables = MultiTable(
            {
                name: TableConfig(
                    name=name, segments=(Segment(dim, AdagradOptimizer(learning_rate=0.1)),), serving=True
                )
                for name, dim in DIMS.items()
            }
        )
        self.dense_weights = {"w": np.zeros(2, np.float32), "tower.0.weight": np.zeros((2, 3), np.float32)}
        self.trail: list[str] = []

    def apply_rows(self, table: str, ids: torch.Tensor, rows: torch.Tensor) -> None:
        self.trail.append(f"rows {table}")
        self.tables[table].assign(ids, rows)

    def erase_rows(self, table: str, ids: torch.Tensor) -> None:
        self.trail.append(f"erase {table}")
        self.tables[table].erase(ids)

    def swap_dense(self, weights: dict[str, np.ndarray]) -> None:
        self.trail.append("dense")
        self.dense_weights = self.dense_weights | {name: np.array(weight) for name, weight in weights.items()}


def content(tables: MultiTable) -> dict[str, dict[int, bytes]]:
    """Return table -> id -> bytes of its row."""
    return {
        name: {
            id_: row.tobytes()
            for ids, rows in table.items()
            for id_, row in zip(ids.tolist(), table.lookup(ids).numpy(), strict=True)
        }
        for name, table in tables.tables.items()
    }
