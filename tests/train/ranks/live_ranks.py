"""A job of ranks that keeps a server up to date, in phases between which a test looks at the server."""

import torch

from monolith.native_training.cpu_training import distributed_sync_train, init_sync_train_and_update_conf
from tests.patience import PATIENCE_SECONDS
from tests.train.job.live_part import BATCH, live_estimator
from tests.train.ranks.every_optimizer import OVERLAPS
from tests.train.ranks.mixed_job import MIXED
from tests.train.ranks.sync_model import wait_for_file

NUM_EVENTS = 2 * BATCH * 15
PHASES = [
    ({}, 2),  # nobody follows yet; its first version is loaded by the server
    (OVERLAPS["both"], 6),
    (MIXED, None),
    ({"restore_ckpt": "model.ckpt-5", **OVERLAPS["both"]}, 1),
]
"""Settings and steps; the last one goes back to an earlier checkpoint."""


def settings_of(changes, target=None):
    common = {
        "enable_sync_training": True,
        "operation_timeout_in_ms": int(PATIENCE_SECONDS * 1000),
        "save_checkpoints_steps": 5,
        "checkpoints_max_to_keep": 100,
        "export_every_seconds": 3600.0,
    }
    return {**common, **({"sync_targets": [target]} if target else {}), **changes}


def train_in_phases(folder):
    """Be a rank; each phase begins when the test says so, and names the server's address."""
    torch.set_num_threads(1)
    for number, (changes, steps) in enumerate(PHASES):
        wait_for_file(folder / f"go-{number}")
        target = (folder / f"go-{number}").read_text()
        if steps is None:
            train_with_backend(folder / "model", changes, target)
        else:
            live_estimator(folder / "model", NUM_EVENTS, **settings_of(changes, target)).train(steps=steps)
        (folder / f"done-{number}").touch()


class Backend:
    """Knows one server, which takes the deltas of shard 1."""

    def __init__(self, target):
        self._target = target

    def get_sync_targets(self, sub_graph):
        return f"rated:{sub_graph}", {self._target: {"replica_id": 0}} if sub_graph == "ps_1" else {}


def train_with_backend(model_dir, changes, target):
    """Be a rank of the original's function, to the end of the data."""
    estimator = live_estimator(model_dir, NUM_EVENTS, **settings_of(changes))
    init_sync_train_and_update_conf(estimator.config)
    distributed_sync_train(estimator.config, estimator.model, Backend(target))


def serve_phases(folder, index):
    """Be a parameter server of the phase that has some."""
    changes = settings_of(PHASES[2][0])
    live_estimator(folder / "model", NUM_EVENTS, **changes, server_type="ps", index=index).train()
