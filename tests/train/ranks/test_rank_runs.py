"""Whole runs in step: ranks together give the rows, weights and checkpoints of one process on all their batches."""

import numpy as np
import pytest
import torch

from monolith.checkpoint import latest_state, list_snapshots
from monolith.train.trained_model import TrainedModel
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, train

pytestmark = pytest.mark.timeout(120)


def trained(folder):
    return TrainedModel(Rated({"num_ranks": 1, "batches_together": 1}), latest_state(folder))


def rows_of(table):
    found = {}
    for ids, values in table.items():
        found |= dict(zip(ids.tolist(), np.asarray(values), strict=True))
    return found


def assert_same(first, second):
    for name in ("uid", "mov"):
        rows, others = rows_of(first.tables[name]), rows_of(second.tables[name])
        assert rows.keys() == others.keys()
        for one in rows:
            np.testing.assert_allclose(rows[one], others[one], rtol=1e-5, atol=1e-6)
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_ranks_train_what_one_process_trains(tmp_path, num_ranks):
    with Ranks(num_ranks, train, tmp_path / "ranks", num_ranks) as ranks:
        found = ranks.results()
    assert [(step, ending) for step, ending, _ in found] == [(STEPS, "the data ended")] * num_ranks
    alone = {"enable_sync_training": False}
    train(tmp_path / "alone", num_ranks, None, alone, num_ranks)
    assert_same(trained(tmp_path / "ranks"), trained(tmp_path / "alone"))
    assert [path.name for path in list_snapshots(tmp_path / "ranks")] == [
        path.name for path in list_snapshots(tmp_path / "alone")
    ]
