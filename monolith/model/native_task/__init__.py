"""The lower way to write a model: feature slots and slices by hand, gradients applied by the task itself."""

from monolith.model.native_task.feature import FeatureColumnV1, FeatureSlice, FeatureSlot, FeatureSlotConfig
from monolith.model.native_task.task import NativeContext, NativeTask, TaskSpec

__all__ = [
    "FeatureColumnV1",
    "FeatureSlice",
    "FeatureSlot",
    "FeatureSlotConfig",
    "NativeContext",
    "NativeTask",
    "TaskSpec",
]
