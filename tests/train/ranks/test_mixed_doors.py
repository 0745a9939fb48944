"""Every way to start ranks with their rows on parameter servers: torchrun, mpirun, and the original's functions."""

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.native_training.cpu_training import (
    distributed_sync_train,
    distributed_train,
    init_sync_train_and_update_conf,
)
from monolith.train.config import DistributedCpuTrainingConfig
from tests.patience import PATIENCE_SECONDS
from tests.train.ranks.mixed_job import MIXED, NUM_PS, servers
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, config_of, train
from tests.train.ranks.test_rank_doors import MODEL, ROOT, TRAIN, run
from tests.train.ranks.test_rank_runs import check_same_bits, everything_in

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
NO_MPIRUN = pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is not installed")


@pytest.fixture(scope="module")
def by_ranks(tmp_path_factory):
    """Return the rows and weights of ranks that hold the rows themselves."""
    folder = tmp_path_factory.mktemp("ranks")
    with Ranks(2, train, folder, 2) as ranks:
        ranks.results()
    return everything_in(folder, Rated)


@contextlib.contextmanager
def started(*commands):
    """Run commands, and see that they end well once the block has ended."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with contextlib.ExitStack() as cleanup:
        processes = []
        for command in commands:
            processes.append(subprocess.Popen(command, env=environment, cwd=ROOT))
            cleanup.callback(processes[-1].wait)
            cleanup.callback(processes[-1].kill)
        yield
        assert [one.wait(PATIENCE_SECONDS) for one in processes] == [0] * len(processes)  # rank 0 ended them


@pytest.mark.services
@pytest.mark.parametrize("door", ["torchrun", pytest.param("mpirun", marks=NO_MPIRUN)])
def test_programs_that_start_ranks(tmp_path, by_ranks, door):
    flags = [*TRAIN[:3], *MODEL[:2], "--enable-sync-training", "--enable-partial-sync-training", f"--num-ps={NUM_PS}"]
    flags += [f"--model-dir={tmp_path}", "--save-checkpoints-steps=4", "--save-summary-steps=0", "--seed=5"]
    alone = [[sys.executable, *flags, "--server-type=ps", f"--index={index}"] for index in range(NUM_PS)]
    # mpirun may start all parameter servers at once: each has the number of its process.
    server_commands = alone if door == "torchrun" else [[*MPIRUN, *flags, "--server-type=ps"]]
    with started(*server_commands):
        run(*(TORCHRUN if door == "torchrun" else MPIRUN), *flags)
    check_same_bits(everything_in(tmp_path, Rated), by_ranks)


def seeded(config):
    """Return the model with the weights that a run gives it that makes it itself."""
    torch.manual_seed(config.seed)
    return Rated({"num_ranks": 2, "batches_together": 1})


def sync_train(config):
    init_sync_train_and_update_conf(config)
    return distributed_sync_train(config, seeded(config))


def train_with_discovery(config):
    return distributed_train(config, FilesServiceDiscovery(Path(config.model_dir) / "found"), seeded(config))


FUNCTIONS = {"distributed_sync_train": sync_train, "distributed_train": train_with_discovery}


def be_part(folder, **role):
    """Be a process of one job after another, each by another function; return how they ended."""
    found = {}
    for name, function in FUNCTIONS.items():
        ours = config_of(folder / name, **MIXED, **role)
        values = {one.name: getattr(ours, one.name) for one in fields(DistributedCpuTrainingConfig) if one.init}
        result = function(DistributedCpuTrainingConfig(**values))
        found[name] = result.global_step, result.ending
    return found


def be_server(folder, index):
    be_part(folder, server_type="ps", index=index)


@pytest.mark.services
def test_functions_of_the_original(tmp_path, by_ranks):
    with servers(be_server, tmp_path) as held, Ranks(2, be_part, tmp_path) as ranks:
        assert ranks.results() == [dict.fromkeys(FUNCTIONS, (STEPS, "the data ended"))] * 2
        for one in held:
            one.join(PATIENCE_SECONDS)
            assert one.exitcode == 0  # rank 0 ended it
    for name in FUNCTIONS:
        check_same_bits(everything_in(tmp_path / name, Rated), by_ranks)


def test_a_job_whose_ranks_hold_the_rows_has_another_function(tmp_path):
    config = DistributedCpuTrainingConfig(model_dir=str(tmp_path), enable_sync_training=True, num_ps=1, seed=5)
    with pytest.raises(ValueError, match="call distributed_sync_train, or set enable_partial_sync_training"):
        train_with_discovery(config)
