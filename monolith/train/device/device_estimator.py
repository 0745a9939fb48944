"""DeviceEstimator: an Estimator that trains with the dense part on a device."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from monolith.model import MonolithModel
from monolith.train.config import RunConfig, RunnerConfig
from monolith.train.device.device_state import Device, DeviceState, move
from monolith.train.estimator import Estimator
from monolith.train.job_config import JobConfig
from monolith.train.loop import RunResult
from monolith.train.made_model import ModelLike
from monolith.train.run import run


class DeviceEstimator(Estimator):
    """Trains in this process, the dense part on a device; evaluates and predicts on the processor."""

    def __init__(self, model: ModelLike, conf: RunConfig | RunnerConfig, *, device: Device) -> None:
        """Take the model as an Estimator does."""
        super().__init__(model, conf)
        self._device = device

    def _how_to_train(self, job: JobConfig) -> Callable[..., RunResult]:
        if job.is_sync or job.is_job or job.num_ps:
            raise NotImplementedError(
                f"num_ps={job.num_ps}, num_workers={job.num_workers}: training on {self._device.place.type} is of one "
                "process; leave them out"
            )
        return partial(_run, self._device)


def _run(device: Device, model: MonolithModel, config: RunnerConfig, **how: Any) -> RunResult:
    try:
        return run(model, config, make_state=partial(DeviceState, device=device), **how)
    finally:
        move(model, torch.device("cpu"))
