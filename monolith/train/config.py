"""RunConfig: what a user says about a run."""

from dataclasses import dataclass
from pathlib import Path

DEFAULT_SNAPSHOT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """What a user says about a run of one process.

    >>> RunConfig(model_dir="model").snapshot_seconds
    60.0
    """

    model_dir: str | Path
    """Folder of the snapshots; a run goes on from the newest one in it."""

    save_checkpoints_steps: int | None = None
    """A snapshot every so many steps."""

    save_checkpoints_secs: float | None = None
    """A snapshot every so many seconds; 60 if neither this nor `save_checkpoints_steps` is given."""

    checkpoints_max_to_keep: int = 3
    """Snapshots kept; older ones are removed."""

    log_step_count_steps: int = 100
    """Without a terminal, a line is printed every so many steps; 0 prints none."""

    metric_window: int = 100_000
    """Predictions over which AUC and log loss are computed."""

    evict_every_seconds: int = 3600
    """Expired rows are removed every so many seconds of event time; 0 leaves them."""

    seed: int | None = 0
    """What torch's generator starts from before the model is made; None leaves it alone."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if not str(self.model_dir):
            raise ValueError("RunConfig: model_dir must name a folder, got an empty name")
        for name, lowest in (("checkpoints_max_to_keep", 1), ("metric_window", 1), ("evict_every_seconds", 0)):
            if getattr(self, name) < lowest:
                raise ValueError(f"RunConfig: {name} must be at least {lowest}, got {getattr(self, name)}")
        if self.log_step_count_steps < 0:
            raise ValueError(f"RunConfig: log_step_count_steps must not be negative, got {self.log_step_count_steps}")
        for name in ("save_checkpoints_steps", "save_checkpoints_secs"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"RunConfig: {name} must be positive, got {value}; None leaves it out")

    @property
    def snapshot_seconds(self) -> float | None:
        """Seconds between snapshots that are in force."""
        if self.save_checkpoints_secs is None and self.save_checkpoints_steps is None:
            return DEFAULT_SNAPSHOT_SECONDS
        return self.save_checkpoints_secs
