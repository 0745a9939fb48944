"""Ranks in step with their rows on parameter servers: the same rows and weights as ranks alone, and as one process."""

import numpy as np
import pytest

from tests.patience import PATIENCE_SECONDS
from tests.train.ranks.every_optimizer import EveryOptimizer, train_every_optimizer
from tests.train.ranks.mixed_job import WAYS, serve_ways, servers, train_mixed
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, train
from tests.train.ranks.test_rank_runs import assert_same, check_same_bits, everything_in, names_in, trained


@pytest.mark.parametrize("num_ranks", [2, pytest.param(3, marks=pytest.mark.services)])
def test_rows_on_servers_are_those_of_ranks_and_of_one_process(tmp_path, num_ranks):
    with servers(serve_ways, tmp_path, num_ranks) as held, Ranks(num_ranks, train_mixed, tmp_path, num_ranks) as ranks:
        found = ranks.results()
        for one in held:
            one.join(PATIENCE_SECONDS)
            assert one.exitcode == 0  # rank 0 ended it
    alone = {"enable_sync_training": False}
    train(tmp_path / "alone", num_ranks, None, alone, num_ranks)
    train_every_optimizer(tmp_path / "alone-optimizers", num_ranks, alone, num_ranks)
    for name in WAYS:
        ends = [(step, ending) for step, ending, _ in (one[name] for one in found)]
        assert ends == [(STEPS, "the data ended")] * num_ranks
        assert names_in(tmp_path / name) == names_in(tmp_path / "alone")
        check_same_bits(everything_in(tmp_path / name, Rated), everything_in(tmp_path / "ranks", Rated))
        optimizers = everything_in(tmp_path / f"{name}-optimizers", EveryOptimizer)
        check_same_bits(optimizers, everything_in(tmp_path / "ranks-optimizers", EveryOptimizer))
    assert_same(trained(tmp_path / "mixed-none"), trained(tmp_path / "alone"))
    rows, weights = everything_in(tmp_path / "mixed-none-optimizers", EveryOptimizer)
    rows_alone, weights_alone = everything_in(tmp_path / "alone-optimizers", EveryOptimizer)
    for table, ids in rows_alone.items():
        assert ids.keys() == rows[table].keys()
        for one, values in ids.items():
            np.testing.assert_allclose(rows[table][one], values, rtol=1e-6, atol=1e-7, err_msg=table)
    np.testing.assert_allclose(weights["scale"], weights_alone["scale"], rtol=1e-6)
