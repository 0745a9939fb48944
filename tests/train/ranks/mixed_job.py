"""Ranks with their rows on parameter servers, for tests: the ranks' function, and the processes that are servers."""

import contextlib
import os
import signal

import monolith as mono
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS
from tests.train.ranks.every_optimizer import OVERLAPS, EveryOptimizer, train_every_optimizer
from tests.train.ranks.sync_model import Rated, config_of, train

NUM_PS = 2
MIXED = {
    "enable_partial_sync_training": True,
    "num_ps": NUM_PS,
    "session_creation_timeout_secs": PATIENCE_SECONDS,
}
WAYS = {f"mixed-{name}": {**MIXED, **OVERLAPS[name]} for name in ("none", "both")}


def train_mixed(folder, num_ranks):
    """Be a rank that trains both models with rows on the ranks, and on parameter servers with and without overlap."""
    found = {}
    train(folder / "ranks", num_ranks)
    train_every_optimizer(folder / "ranks-optimizers", num_ranks)
    for name, changes in WAYS.items():
        found[name] = train(folder / name, num_ranks, None, changes)
        train_every_optimizer(folder / f"{name}-optimizers", num_ranks, changes)
    return found


def serve_ways(folder, num_ranks, index):
    """Be a parameter server of all these runs, one after another."""
    for name, changes in WAYS.items():
        serve(folder / name, num_ranks, index, Rated, changes)
        serve(folder / f"{name}-optimizers", num_ranks, index, EveryOptimizer, changes)


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


def kill_server(path):
    """Return a call that kills the process whose number is in a file."""
    return lambda context: os.kill(int(path.read_text()), signal.SIGKILL)
