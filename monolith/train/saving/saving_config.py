"""SavingConfig: what a run saves, where and when."""

from dataclasses import dataclass, field
from pathlib import Path

from monolith.checkpoint.keep.tide_window import TideConfig

DEFAULT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SavingConfig:
    """What a run saves, where and when."""

    folder: Path
    """Folder of the snapshots."""

    every_seconds: float | None = None
    """A snapshot this often; every 60 s if `every_steps` is not given either."""

    every_steps: int | None = None
    """A snapshot at every n-th step."""

    delta_every_steps: int | None = None
    """At every n-th step, what changed since the last save."""

    dense_every_seconds: float | None = None
    """Dense weights alone this often, in a folder of their own."""

    dense_every_steps: int | None = None
    """Dense weights alone at every n-th step."""

    dense_waits: bool = False
    """Training waits while dense weights alone are saved."""

    max_to_keep: int = 10
    """Snapshots kept; older ones are removed, except one a day."""

    mirror_dir: str | None = None
    """A URL or folder that gets a copy of every snapshot and delta."""

    ignore_errors: bool = False
    """A save that fails twice is logged, and training goes on."""

    skip_first: bool = False
    """No snapshot before the first step."""

    reports_rows: bool = False
    """A report on the ids per slot is written beside each snapshot."""

    evicts: bool = False
    """Rows that have expired are removed before each snapshot."""

    tide: TideConfig = field(default_factory=TideConfig)
    """Another period while lent machines are not ours."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.max_to_keep < 1:
            raise ValueError(f"checkpoints_max_to_keep must be at least 1, got {self.max_to_keep}")
        if self.delta_every_steps is not None and self.delta_every_steps <= 0:
            raise ValueError(f"delta_every_steps must be positive, got {self.delta_every_steps}; None leaves it out")
        _check_cadence("save_checkpoints", self.every_seconds, self.every_steps)
        _check_cadence("dense_only_save_checkpoints", self.dense_every_seconds, self.dense_every_steps)

    @property
    def seconds(self) -> float | None:
        """Seconds between snapshots that are in force; None if steps count."""
        return DEFAULT_SECONDS if self.every_seconds is None and self.every_steps is None else self.every_seconds


def _check_cadence(kind: str, seconds: float | None, steps: int | None) -> None:
    if seconds is not None and steps is not None:
        raise ValueError(f"Can not provide both {kind}_secs and {kind}_steps. Leave one out.")
    for unit, value in (("secs", seconds), ("steps", steps)):
        if value is not None and value <= 0:
            raise ValueError(f"{kind}_{unit} must be positive, got {value}; None leaves it out")
