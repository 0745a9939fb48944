"""The job of the specification's distributed test: TestFFMModel, trained, then evaluated."""

import time
from pathlib import Path
from typing import Any

import torch

import monolith as mono
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.model.zoo.ffm import TestFFMModel
from monolith.native_training.cpu_training import distributed_train
from monolith.parallel import ParameterServer
from monolith.train.config import DistributedCpuTrainingConfig
from monolith.train.roles import server_choice
from tests.train.job.counting_job import FailsOnce, config_of


def params():
    found = TestFFMModel.params()
    found.metrics.enable_deep_insight = False
    found.train.per_replica_batch_size = 16  # 64 events: each worker has two batches of them, again and again
    return found


def ffm_part(model_dir: str, num_events: int, action: str = "train", **role: Any) -> None:
    """Be a process that trains for 10 steps, or evaluates 10 batches."""
    torch.set_num_threads(1)
    estimator = mono.Estimator(params(), config_of(Path(model_dir), **role))
    getattr(estimator, action)(steps=10)


def distributed_part(model_dir: str, num_events: int, fails: bool = False, deaf: bool = False, **role: Any) -> None:
    """Be a process of the original's `distributed_train`, with a discovery of its own."""
    torch.set_num_threads(1)
    server_choice.MEASURE_SECONDS = 0.5
    if deaf:  # a server that does not hear that the job is over
        ParameterServer.wait = lambda self, seconds=None: bool(time.sleep(0.1))
    task = params()
    task.train.max_steps = 12
    task.train.max_pending_seconds_for_barrier = 2
    config = DistributedCpuTrainingConfig(
        model_dir=model_dir, retry_wait_in_secs=0, log_step_count_steps=0, save_summary_steps=0, **role
    )
    discovery = FilesServiceDiscovery(Path(model_dir) / "discovery")
    distributed_train(config, discovery, task, user_hooks=[FailsOnce()] if fails else None)
