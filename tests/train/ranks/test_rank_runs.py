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
from tests.train.ranks.every_optimizer import (
    OVERLAPS,
    EveryOptimizer,
    train_every_optimizer,
    train_in_all_ways,
)
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


@pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=pytest.mark.services)])
def test_ranks_train_what_one_process_trains(tmp_path, num_ranks):
    with Ranks(num_ranks, train_in_all_ways, tmp_path, num_ranks) as ranks:
        found = ranks.results()
    alone = {"enable_sync_training": False}
    train(tmp_path / "alone", num_ranks, None, alone, num_ranks)
    train_every_optimizer(tmp_path / "alone-optimizers", num_ranks, alone, num_ranks)
    for name in OVERLAPS:
        ends = [(step, ending) for step, ending, _ in (one[name] for one in found)]
        assert ends == [(STEPS, "the data ended")] * num_ranks
        assert names_in(tmp_path / name) == names_in(tmp_path / "alone")
        check_same_bits(everything_in(tmp_path / name, Rated), everything_in(tmp_path / "none", Rated))
    assert_same(trained(tmp_path / "none"), trained(tmp_path / "alone"))
    overlapped = everything_in(tmp_path / "both-optimizers", EveryOptimizer)
    check_same_bits(overlapped, everything_in(tmp_path / "none-optimizers", EveryOptimizer))
    rows, weights = everything_in(tmp_path / "none-optimizers", EveryOptimizer)
    rows_alone, weights_alone = everything_in(tmp_path / "alone-optimizers", EveryOptimizer)
    assert rows.keys() == rows_alone.keys()
    for table, ids in rows.items():
        assert ids.keys() == rows_alone[table].keys()
        for one, values in ids.items():
            np.testing.assert_allclose(values, rows_alone[table][one], rtol=1e-6, atol=1e-7, err_msg=table)
    np.testing.assert_allclose(weights["scale"], weights_alone["scale"], rtol=1e-6)


def check_same_bits(first, second):
    for table, rows in first[0].items():
        assert rows.keys() == second[0][table].keys()
        assert all(np.array_equal(values, second[0][table][one]) for one, values in rows.items()), table
    assert all(np.array_equal(values, second[1][name]) for name, values in first[1].items())


def names_in(folder):
    return [path.name for path in list_snapshots(folder)]


def everything_in(folder, model):
    """Return the rows and weights of the newest checkpoint as arrays, by name."""
    found = TrainedModel(model({"num_ranks": 1, "batches_together": 1}), latest_state(folder))
    weights = {name: one.numpy() for name, one in found.model.state_dict().items()}
    return {name: rows_of(table) for name, table in found.tables.tables.items()}, weights


SUMS = {
    "mean": ({}, 0.5),
    "sum": ({"sync_row_gradients": "sum"}, 1.0),
    "early": ({"embedding_prefetch_capacity": 2}, 0.5),
    "late": ({"enable_async_optimize": True, "save_checkpoints_steps": 3}, 0.5),
}
"""Settings, and what a row gets for every event: its gradient is 1 whatever the rows are when a batch reads them."""

NUM_BATCHES = 20


def add_rows(folder):
    for name, (changes, _) in SUMS.items():
        mono.Estimator(Counting, config_of(folder / name, **changes), params={"events": NUM_BATCHES * EVENTS}).train()


def test_every_gradient_of_a_row_counts_once_averaged_or_added_early_or_late(tmp_path):
    with Ranks(2, add_rows, tmp_path) as ranks:
        ranks.results()
    ids, counts = np.unique(events(NUM_BATCHES * EVENTS), return_counts=True)
    for name, (_, scale) in SUMS.items():
        rows, weight, _ = counted(tmp_path / name)
        assert rows == dict(zip(ids.tolist(), (scale * counts).tolist(), strict=True)), name
        assert weight == NUM_BATCHES / 2  # of dense weights always the mean


def test_num_workers_that_were_not_started_are_refused():
    with pytest.raises(ValueError, match="num_workers=3, but 1 ranks were started"):
        init_sync_train_and_update_conf(RunnerConfig(enable_sync_training=True, num_workers=3))
    with pytest.raises(ValueError, match="sync_row_gradients must be mean or sum, got 'most'"):
        RunnerConfig(sync_row_gradients="most")
