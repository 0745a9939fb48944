"""Ranks with their rows on parameter servers, for tests: the ranks' function, and the processes that are servers."""

import contextlib
import os
import signal

import monolith as mono
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS
from tests.train.ranks.every_optimizer import OVERLAPS, EveryOptimizer, train_every_optimizer
from tests.train.ranks.sync_model import Rated, Watch, config_of, process_of, train, wait_for_file

NUM_PS = 2
MIXED = {
    "enable_partial_sync_training": True,
    "num_ps": NUM_PS,
    "session_creation_timeout_secs": PATIENCE_SECONDS,
}
WAYS = {f"mixed-{name}": {**MIXED, **OVERLAPS[name]} for name in ("none", "both")}
CHANGING = [(3, WAYS["mixed-none"]), (3, {}), (None, WAYS["mixed-both"])]
"""Steps and settings of jobs that go on from each other's checkpoints."""


def train_mixed(folder, num_ranks):
    """Be a rank that trains both models with rows on the ranks, and on parameter servers with and without overlap."""
    found = {}
    train(folder / "ranks", num_ranks)
    train_every_optimizer(folder / "ranks-optimizers", num_ranks)
    for name, changes in WAYS.items():
        found[name] = train(folder / name, num_ranks, None, changes)
        train_every_optimizer(folder / f"{name}-optimizers", num_ranks, changes)
    for number, (steps, changes) in enumerate(CHANGING):
        if number == 2:  # the servers of the first have ended
            wait_for_file(folder / "ended-0")
            wait_for_file(folder / "ended-1")
        train(folder / "changing", num_ranks, steps, changes)
    return found


def serve_ways(folder, num_ranks, index):
    """Be a parameter server of all these runs, one after another."""
    for name, changes in WAYS.items():
        serve(folder / name, num_ranks, index, Rated, changes)
        serve(folder / f"{name}-optimizers", num_ranks, index, EveryOptimizer, changes)
    for _, changes in CHANGING:
        if "num_ps" in changes:
            serve(folder / "changing", num_ranks, index, Rated, changes)
            (folder / f"ended-{index}").touch()


def serve(folder, num_ranks, index, model=Rated, changes=None, params=None):
    """Be a parameter server until rank 0 ends the job."""
    config = config_of(folder, **{**MIXED, **(changes or {})}, server_type="ps", index=index)
    mono.Estimator(model, config, params=params or {"num_ranks": num_ranks, "batches_together": 1}).train()


@contextlib.contextmanager
def servers(job, *arguments, count=NUM_PS):
    """Run processes that call `job(*arguments, index)`, and give them."""
    found = [PROCESSES.Process(target=job, args=(*arguments, index), daemon=True) for index in range(count)]
    for one in found:
        one.start()
    try:
        yield found
    finally:
        for one in found:
            one.kill()
            one.join()


def _kill_server(folder):
    return lambda context: os.kill(process_of(folder, "ps.1"), signal.SIGKILL)


def train_and_lose_a_server(folder, num_ranks):
    """Be a rank; rank 1 kills server 1 at step 6."""
    rank = int(os.environ["RANK"])
    config = config_of(folder, **MIXED, operation_timeout_in_ms=20_000)
    hook = Watch(folder, rank, _kill_server(folder) if rank == 1 else None, at=6)
    mono.Estimator(Rated, config, params={"num_ranks": num_ranks, "batches_together": 1}).train(hooks=[hook])
