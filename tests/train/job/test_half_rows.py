"""Rows that travel as fp16 between workers and parameter servers, through every door, and nowhere else."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.native_training.cpu_training import distributed_train, local_train_internal
from monolith.train.config import CpuTrainingConfig, RunConfig, RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.job.evaluate_job import APART, evaluate_job
from monolith.train.job.parameter_server import run_ps
from monolith.train.job.place import place_of
from monolith.train.trained_model import TrainedModel
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import config_of
from tests.train.job.half_job import STEPS, OnlyHalves, Pulled, Thirds, serve_ranks, take_half_part, train_as_rank
from tests.train.job.running_job import Job, wait_until
from tests.train.ranks.mixed_job import servers
from tests.train.ranks.rank_processes import Ranks

ROOT = Path(__file__).resolve().parents[3]
EXACT = [float(torch.tensor(0.0) + sum([torch.tensor(8 / 3)] * count)) for count in range(2 * STEPS)]
NO_SERVERS = "half_precision_rows=True: .*this run has none; set num_ps .*or leave half_precision_rows out"


def assert_pulled(rows, *, half):
    """Rows are the sums of eight thirds, as float32 or as fp16."""
    assert len(rows) == 2 * STEPS
    exact = torch.tensor(EXACT)
    torch.testing.assert_close(torch.tensor(rows), exact.half().float() if half else exact, rtol=1e-6, atol=0)
    assert (torch.tensor(rows) == torch.tensor(rows).half().float()).all() == half


def row_in(folder):
    """Return the row of the newest snapshot."""
    ((_, values),) = TrainedModel(Thirds(None), latest_state(folder)).tables["uid"].items()
    return float(values[0])


@pytest.fixture
def server():
    """Start a parameter server as a thread; it ends with its job."""
    threads = []

    def start(config, discovery=None, apart=""):
        place = place_of(config, discovery, apart=apart)
        threads.append(threading.Thread(target=run_ps, args=(place, job_config(config)), daemon=True))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("door", ["Estimator", "RunConfig", "distributed_train"])
def test_a_chief_pulls_rows_as_the_setting_says(tmp_path, server, door, half):
    config = config_of(tmp_path, num_ps=1, half_precision_rows=half)
    server(config, FilesServiceDiscovery(tmp_path / "here") if door == "distributed_train" else None)
    pulled = Pulled()
    if door == "distributed_train":
        distributed_train(config, FilesServiceDiscovery(tmp_path / "here"), Thirds(None), user_hooks=[pulled])
    elif door == "RunConfig":
        config = RunConfig(model_dir=tmp_path, num_ps=1, half_precision_rows=half)
        mono.Estimator(Thirds, config).train(hooks=[pulled])
    else:
        mono.Estimator(Thirds, config).train(hooks=[pulled])
    assert_pulled(pulled.rows, half=half)
    assert row_in(tmp_path) == pytest.approx(2 * STEPS * 8 / 3, rel=1e-6), "servers keep float32"


@pytest.mark.parametrize("half", [False, True])
def test_servers_of_the_same_process_do_so_too(tmp_path, half):
    pulled = Pulled()
    config = CpuTrainingConfig(num_ps=2, half_precision_rows=half, log_step_count_steps=0)
    local_train_internal(Thirds(None), config, tmp_path, user_hooks=[pulled])
    assert_pulled(pulled.rows, half=half)
    assert row_in(tmp_path) == pytest.approx(2 * STEPS * 8 / 3, rel=1e-6)


def test_a_job_evaluates_rows_as_the_setting_says(tmp_path, server):
    mono.Estimator(Thirds, RunnerConfig(model_dir=tmp_path, log_step_count_steps=0)).train()
    path = latest_state(tmp_path)
    means = {}
    for half in (False, True):
        config = config_of(tmp_path, num_ps=1, half_precision_rows=half)
        server(config, apart=APART)
        model = (OnlyHalves if half else Thirds)(None)
        means[half] = evaluate_job(model, config, lambda: path, model.input_fn(mono.EVAL))["mse"]
    assert means[False] != means[True] == pytest.approx(means[False], rel=1e-2)


def test_all_workers_of_a_job_pull_halves_and_it_ends_well(tmp_path):
    with Job(tmp_path, take_half_part, num_ps=2, half_precision_rows=True) as job:

        def is_over():
            job.check_processes()  # the model refuses other rows; the chief would wait for a worker that failed
            return not any(process.is_alive() for process in job.processes.values())

        wait_until(is_over)
        assert set(job.ends().values()) == {0}
    assert row_in(tmp_path) == pytest.approx(2 * STEPS * 8 / 3, rel=1e-6)


@pytest.mark.services
def test_launch_has_the_flag(tmp_path):
    command = [sys.executable, "-m", "monolith", "launch", "tests.train.job.half_job:OnlyHalves"]
    command += ["--model-dir", str(tmp_path), "--num-ps", "1", "--num-workers", "2", "--half-precision-rows"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert row_in(tmp_path) == pytest.approx(2 * STEPS * 8 / 3, rel=1e-6)


@pytest.mark.services
def test_ranks_pull_halves_from_servers(tmp_path):
    with servers(serve_ranks, tmp_path, count=1), Ranks(2, train_as_rank, tmp_path) as ranks:
        for rows in ranks.results():
            assert len(rows) == STEPS and rows[-1] > 0


def test_it_is_refused_where_no_rows_travel(tmp_path):
    for settings in ({}, {"is_local": True}, {"enable_sync_training": True}):
        config = RunnerConfig(model_dir=tmp_path, half_precision_rows=True, **settings)
        with pytest.raises(ValueError, match=NO_SERVERS):
            mono.Estimator(Thirds, config).train()
    both = {"enable_sync_training": True, "enable_partial_sync_training": True}
    for settings in ({"num_ps": 1}, {"is_local": True, "num_ps": 1}, {"num_ps": 1, **both}):
        job_config(RunnerConfig(half_precision_rows=True, **settings)).check()
