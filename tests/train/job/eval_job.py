"""Processes that evaluate: by the original's `distributed_train` and TF_CONFIG, or held in the middle of their part."""

import json
import time
from pathlib import Path
from typing import Any

import torch

from monolith.checkpoint import list_snapshots
from monolith.cluster.discovery.tf_config import TfConfigServiceDiscovery
from monolith.native_training.cpu_training import distributed_train
from monolith.train.config import DistributedCpuTrainingConfig
from monolith.train.job.evaluate_job import evaluate_job
from monolith.train.roles import server_choice
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import Counting, Slow, config_of, events_source

FOR_EVER_SECONDS = 100 * PATIENCE_SECONDS


def evaluating_part(model_dir: str, num_events: int, *, cluster: dict, server_type: str, index: int, **sizes: Any):
    """Write what this process found to `found-<type>-<index>` in the model's folder; the chief is listed apart."""
    torch.set_num_threads(1)
    discovery, server_type, index = _listed(cluster, server_type, index)
    config = DistributedCpuTrainingConfig(
        model_dir=model_dir, mode="eval", session_creation_timeout_secs=PATIENCE_SECONDS, **sizes
    )
    found = distributed_train(config, discovery, Counting({"events": num_events}))
    (Path(model_dir) / f"found-{server_type}-{index}").write_text(json.dumps(found))


def held_part(model_dir: str, num_events: int, *, joins_late: bool = False, cluster: dict | None = None, **role: Any):
    """Evaluate, hold after one batch until there is the file `go`, and write what is raised to `raised-<index>`.

    With `joins_late`, worker 1 joins once that file is there. Nobody waits in vain for less than `FOR_EVER_SECONDS`.
    """
    torch.set_num_threads(1)
    folder, index = Path(model_dir), role["index"]
    server_choice.SPARE_SECONDS = FOR_EVER_SECONDS

    def find() -> Path:
        if index == 0 or not joins_late:
            return list_snapshots(folder)[-1]
        while not (folder / "go").exists():
            time.sleep(0.02)
        return list_snapshots(folder)[0]

    config = config_of(
        folder,
        session_creation_timeout_secs=int(FOR_EVER_SECONDS),
        operation_timeout_in_ms=int(1000 * FOR_EVER_SECONDS),
        chief_timeout_secs=int(FOR_EVER_SECONDS),
        **role,
    )
    discovery = None if cluster is None else _listed(cluster, role["server_type"], index)[0]
    hooks = [Slow(folder, index, 0.0, holds_after=1)]
    try:
        evaluate_job(Counting({"events": 0}), config, find, events_source(num_events), discovery=discovery, hooks=hooks)
    except BaseException as error:
        (folder / f"raised-{index}").write_text(f"{type(error).__name__}: {error}")
        raise


def _listed(cluster: dict, server_type: str, index: int) -> tuple[TfConfigServiceDiscovery, str, int]:
    """Return the process's list of addresses, and its name and index there."""
    if server_type == "worker":
        server_type, index = ("chief", 0) if index == 0 else ("worker", index - 1)
    task = {"type": server_type, "index": index}
    return TfConfigServiceDiscovery({"cluster": cluster, "task": task}), server_type, index
