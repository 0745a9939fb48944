"""Everything a run changes: made, restored, and handed to savers."""

from monolith.train.state.restore_config import RestoreConfig
from monolith.train.state.starting_point import open_state
from monolith.train.state.train_state import StateConfig, TrainState

__all__ = ["RestoreConfig", "StateConfig", "TrainState", "open_state"]
