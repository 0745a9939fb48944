"""The state in the golden snapshots: `tests/golden/snapshots/<format version of table files>/`.

Each of them was written by the code of its time, from the values below, and is never written again; only 1.0 was made
later, from a snapshot of 1.1 in one shard, by docs/formats.md. A new version of the format gets a new one:
`write_golden(Path("tests/golden/snapshots/<version>"))`.
"""

from pathlib import Path

import torch

import monolith as mono
from monolith.checkpoint import save_snapshot
from monolith.data import Schema
from monolith.embedding import AdagradOptimizer
from monolith.model import make_plan, make_tables


class Model(mono.MonolithModel):
    """A table of rows with optimizer state, and one whose ids are counted first."""

    def __init__(self):
        super().__init__()
        self.create_embedding_feature_column("uid", optimizer=AdagradOptimizer(learning_rate=0.1))
        self.create_embedding_feature_column("mov", occurrence_threshold=2, filter_capacity=300)

    def model_fn(self, features, mode):
        pred = torch.cat(self.lookup_embedding_slice(["uid", "mov"], slice_dim=2), dim=1)
        return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())


IDS = torch.tensor([(place - 300) * 0x3F3D5B79A3C1E for place in range(600)])
"""Of both signs, and wide; some of them share a bucket."""

ROWS = torch.stack([torch.arange(600) / 4, -torch.arange(600) / 8], dim=1)
COUNTED_IDS = torch.arange(-20, 20)
MAX_TIME, GENERATION, EPOCH, STEP, NUM_SHARDS = 1_700_000_000, 3, 4, 5, 3


def golden_tables():
    """Return the tables of the golden snapshots."""
    tables = make_tables(make_plan(Model(), Schema.of(uid="int64", mov="int64")))
    tables["uid"].assign(IDS, ROWS, time=MAX_TIME)
    tables["mov"].apply_gradients(COUNTED_IDS, torch.ones(len(COUNTED_IDS), 2), time=MAX_TIME)  # no rows yet
    return tables


def write_golden(folder: Path) -> Path:
    """Write the snapshot of today's format into a folder, and return it."""
    return save_snapshot(
        folder,
        STEP,
        plan=make_plan(Model(), Schema.of(uid="int64", mov="int64")),
        tables=golden_tables(),
        dense={"weight": torch.tensor([1.5, -2.25])},
        stream={"0": 70},
        generation=GENERATION,
        epoch=EPOCH,
        num_shards=NUM_SHARDS,
        fenced=False,
    )
