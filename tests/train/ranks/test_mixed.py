"""Ranks in step with their rows on parameter servers: the same rows and weights as ranks alone, and as one process."""

import os
import subprocess
import sys

import numpy as np
import pytest

from monolith.checkpoint import latest_state
from monolith.checkpoint.format.manifest import read_manifest
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import job_config
from tests.patience import PATIENCE_SECONDS
from tests.train.ranks.every_optimizer import EveryOptimizer, train_every_optimizer
from tests.train.ranks.mixed_job import MIXED, WAYS, serve, serve_ways, servers, train_and_lose_a_server, train_mixed
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, train
from tests.train.ranks.test_rank_doors import MODEL, ROOT
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
    # Ranks with and without servers go on from each other's checkpoints.
    check_same_bits(everything_in(tmp_path / "changing", Rated), everything_in(tmp_path / "ranks", Rated))
    assert_same(trained(tmp_path / "mixed-none"), trained(tmp_path / "alone"))
    rows, weights = everything_in(tmp_path / "mixed-none-optimizers", EveryOptimizer)
    rows_alone, weights_alone = everything_in(tmp_path / "alone-optimizers", EveryOptimizer)
    for table, ids in rows_alone.items():
        assert ids.keys() == rows[table].keys()
        for one, values in ids.items():
            np.testing.assert_allclose(rows[table][one], values, rtol=1e-6, atol=1e-7, err_msg=table)
    np.testing.assert_allclose(weights["scale"], weights_alone["scale"], rtol=1e-6)


@pytest.mark.services
def test_all_ranks_name_a_lost_server_and_the_job_goes_on_with_others(tmp_path):
    with servers(serve, tmp_path, 2) as held, Ranks(2, train_and_lose_a_server, tmp_path, 2) as ranks:
        found = ranks.reports()
        address = "127.0.0.1:"
        for is_well, said in found.values():
            assert not is_well
            assert "TimeoutError: " in said and address in said, said
        assert not held[1].is_alive()
        held[0].kill()
        held[0].join(PATIENCE_SECONDS)
    assert read_manifest(latest_state(tmp_path)).step == 4
    with servers(serve, tmp_path, 2), Ranks(2, train, tmp_path, 2, None, MIXED) as ranks:
        assert [step for step, _, _ in ranks.results()] == [STEPS, STEPS]


@pytest.mark.services
@pytest.mark.parametrize("victim", ["", "ps.1"])
def test_launch_starts_servers_and_ranks_again(tmp_path, victim):
    command = [sys.executable, "-m", "monolith", "launch", *MODEL[:2], "--sync", "--num-workers=2", "--num-ps=2"]
    command += [f"--model-dir={tmp_path}", "--save-checkpoints-steps=2", "--save-summary-steps=0"]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "SYNC_MODEL_DIES": str(tmp_path / "died"),
        "SYNC_MODEL_KILLS": victim,
    }
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert (tmp_path / "died").exists()
    assert f"{victim.replace('.', ' ') or 'rank 1'} was ended by SIGKILL" in said
    assert read_manifest(latest_state(tmp_path)).step == STEPS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"enable_sync_training": False}, "set enable_sync_training too"),
        ({"num_ps": 0}, "num_ps=0: workers have their tables on parameter servers"),
        ({"server_type": "ps", "index": 2}, "index=2: there is no such ps, num_ps=2"),
        ({"server_type": "dispatcher"}, "start a data service by itself"),
        ({"enable_partial_sync_training": False, "server_type": "ps"}, "the ranks hold the rows themselves"),
    ],
)
def test_settings_that_make_no_such_job_are_refused(changes, words):
    config = RunnerConfig(**{"enable_sync_training": True, **MIXED, **changes})
    with pytest.raises(ValueError, match=words):
        job_config(config).check()
