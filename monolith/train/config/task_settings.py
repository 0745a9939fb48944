"""A task's own parameters, which apply where neither code nor the command line sets a value."""

import copy
from typing import Any, TypeVar

from monolith.train.config.training_config import CpuTrainingConfig

Config = TypeVar("Config", bound=CpuTrainingConfig)

REALTIME_DENSE_SECONDS = 1800
"""The specification's period between snapshots of dense weights alone in real-time training."""

_CADENCES = ("save_checkpoints", "dense_only_save_checkpoints")


def task_settings(config: Config, model: Any) -> Config:
    """Return the settings, with gaps filled in from the task's parameters, then with the specified defaults.

    A cadence of the task applies if the configuration sets it neither in steps nor in seconds.
    """
    filled = copy.copy(config)
    for kind in _CADENCES:
        names = [f"{kind}_secs", f"{kind}_steps"]
        if all(getattr(filled, name) is None for name in names):
            for name in names:
                setattr(filled, name, task_parameter(model, "train", name))
    if filled.enable_realtime_training:
        filled.partial_recovery = True if filled.partial_recovery is None else filled.partial_recovery
        if filled.dense_only_save_checkpoints_steps is None:
            filled.dense_only_save_checkpoints_secs = filled.dense_only_save_checkpoints_secs or REALTIME_DENSE_SECONDS
    if filled.use_native_multi_hash_table is None:
        filled.use_native_multi_hash_table = True
    insight = task_parameter(model, "metrics", "deep_insight_name")
    filled.model_name = filled.model_name or insight or f"di_name_{type(model).__name__}"
    return filled


def task_parameter(model: Any, group: str, name: str) -> Any:
    """Return a parameter of a model that is a task; None if it is not a task or does not set it."""
    return getattr(getattr(getattr(model, "p", None), group, None), name, None)
