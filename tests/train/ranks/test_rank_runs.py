"""Whole runs in step: ranks together give the rows, weights and checkpoints of one process on all their batches."""

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.checkpoint import latest_state, list_snapshots
from monolith.train.config import RunnerConfig
from monolith.train.ranks.run_ranks import init_sync_train_and_update_conf
from monolith.train.trained_model import TrainedModel
from tests.train.job.counting_job import BATCH as EVENTS
from tests.train.job.counting_job import Counting, counted, events
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, config_of, train


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


def add_rows(folder, kind):
    """Train as a rank with rows whose gradients are 1, and return what they are after a step."""
    config = config_of(folder, sync_row_gradients=kind)
    return mono.Estimator(Counting, config, params={"events": 2 * EVENTS}).train(steps=1).global_step


@pytest.mark.parametrize(("kind", "scale"), [("mean", 0.5), ("sum", 1.0)])
def test_gradients_of_rows_are_averaged_or_added(tmp_path, kind, scale):
    with Ranks(2, add_rows, tmp_path, kind) as ranks:
        assert ranks.results() == [1, 1]
    rows, weight, _ = counted(tmp_path)
    ids, counts = np.unique(events(2 * EVENTS), return_counts=True)
    assert rows == dict(zip(ids.tolist(), (scale * counts).tolist(), strict=True))
    assert weight == 1.0  # of dense weights always the mean


def test_num_workers_that_were_not_started_are_refused():
    with pytest.raises(ValueError, match="num_workers=3, but 1 ranks were started"):
        init_sync_train_and_update_conf(RunnerConfig(enable_sync_training=True, num_workers=3))
    with pytest.raises(ValueError, match="sync_row_gradients must be mean or sum, got 'most'"):
        RunnerConfig(sync_row_gradients="most")
