"""A process that evaluates through the original's `distributed_train`, and finds the others by TF_CONFIG."""

import json
from pathlib import Path
from typing import Any

import torch

from monolith.cluster.discovery.tf_config import TfConfigServiceDiscovery
from monolith.native_training.cpu_training import distributed_train
from monolith.train.config import DistributedCpuTrainingConfig
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import Counting


def evaluating_part(model_dir: str, num_events: int, *, cluster: dict, server_type: str, index: int, **sizes: Any):
    """Write what this process found to `found-<type>-<index>` in the model's folder; the chief is listed apart."""
    torch.set_num_threads(1)
    if server_type == "worker":
        server_type, index = ("chief", 0) if index == 0 else ("worker", index - 1)
    discovery = TfConfigServiceDiscovery({"cluster": cluster, "task": {"type": server_type, "index": index}})
    config = DistributedCpuTrainingConfig(
        model_dir=model_dir, mode="eval", session_creation_timeout_secs=PATIENCE_SECONDS, **sizes
    )
    found = distributed_train(config, discovery, Counting({"events": num_events}))
    (Path(model_dir) / f"found-{server_type}-{index}").write_text(json.dumps(found))
