"""Another number of ranks goes on from the newest checkpoint of a job: every event is trained on once."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

import monolith as mono
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, Counting, counted, expected
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import config_of
from tests.train.ranks.test_rank_doors import ROOT

NUM_EVENTS = BATCH * 24


def count_on(folder, steps):
    """Be a rank that takes a few more steps."""
    config = config_of(folder, sync_row_gradients="sum")
    return mono.Estimator(Counting, config, params={"events": NUM_EVENTS}).train(steps=steps).global_step


@pytest.mark.services
def test_a_job_goes_on_with_more_and_with_fewer_ranks(tmp_path):
    for num_ranks, steps in ((2, 3), (3, 2), (1, None)):
        with Ranks(num_ranks, count_on, tmp_path, steps) as ranks:
            ranks.results()
    rows, weight, step = counted(tmp_path)
    assert rows == expected(NUM_EVENTS)
    assert weight == step == 3 + 2 + (24 - 2 * 3 - 3 * 2)


def agent(folder, port, *, is_host):
    """Start torchrun as on one of two machines, of which one is enough."""
    # A machine is given up when its agent was silent for 20 seconds.
    patience = "last_call_timeout=5,keep_alive_interval=2,keep_alive_max_attempt=10"
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3"]
    command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job", "--local-addr=127.0.0.1"]
    command += [f"--rdzv-conf=is_host={str(is_host).lower()},{patience}", "--monitor-interval=0.2"]
    command += ["-m", "monolith", "train", "tests.train.ranks.elastic_model:Losing", "--enable-sync-training"]
    command += [f"--params={json.dumps({'events': NUM_EVENTS, 'folder': str(folder)})}", "--sync-row-gradients=sum"]
    command += [f"--model-dir={folder / 'model'}", "--save-checkpoints-steps=5", "--save-summary-steps=0"]
    addresses = {"GLOO_SOCKET_IFNAME": "lo", "CLOUDNATIVE_INET_ADDR": "127.0.0.1"}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **addresses}
    with (folder / f"agent-{is_host}.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


@pytest.mark.services
def test_torchrun_goes_on_with_the_ranks_that_are_left(tmp_path):
    port = free_port()
    with contextlib.ExitStack() as cleanup:
        agents = []
        for is_host in (True, False):
            agents.append(agent(tmp_path, port, is_host=is_host))
            cleanup.callback(agents[-1].kill)
        first, second = agents
        assert first.wait(PATIENCE_SECONDS) == 0, (tmp_path / "agent-True.log").read_text()[-4000:]
        assert second.wait(PATIENCE_SECONDS) < 0  # it was killed
    assert (tmp_path / "lost").exists()
    rows, weight, step = counted(tmp_path / "model")
    assert rows == expected(NUM_EVENTS)
    # Two ranks took 5 or more steps, of 2 batches each; the rest was for one.
    assert weight == step
    assert 12 < step <= 24 - 5
