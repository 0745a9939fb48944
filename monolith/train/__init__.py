"""The training loop: Estimator, its configuration, and the visible step."""

from monolith.train.config import RunConfig, RunnerConfig
from monolith.train.estimator import Estimator
from monolith.train.hooks.live_view import LiveView
from monolith.train.loop import RunResult, Sync, Trainer
from monolith.train.state import TrainState

__all__ = ["Estimator", "LiveView", "RunConfig", "RunResult", "RunnerConfig", "Sync", "TrainState", "Trainer"]
