"""RestoreConfig: where a run starts from, and what it takes from there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from monolith.checkpoint.format.state_files.text_files import path_exists, write_text

CLEAR_NN_NAME = "clear_nn"
"""Marker in a model's folder: its dense weights were cleared, which happens once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreConfig:
    """Where a run starts from, and what it takes from there; by default all, from the newest snapshot."""

    restore_dir: str | None = None
    """Another model's folder or its mirror's URL, used if `model_dir` has no snapshots."""

    restore_ckpt: str | None = None
    """Name of the snapshot or delta to start from, once; the newest if not given."""

    alias_map: Mapping[str, str] | None = None
    """New name -> old name of dense weights that were renamed."""

    guess_names: bool = True
    """Without an alias map, guess which weights were renamed."""

    clear_nn: bool = False
    """Once, start with new dense weights; rows are kept."""

    continue_training: bool = False
    """With `clear_nn`, go on counting steps."""

    drop_not_finite: bool = False
    """Leave out rows with NaN or infinite values, instead of refusing the snapshot."""

    is_chief: bool = True
    """This process copies the checkpoint of `restore_dir`; the others wait for it."""

    pointer_timeout_seconds: float = 7200.0
    """How long the others wait at most."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.clear_nn and self.alias_map is not None:
            raise ValueError("clear_nn begins with new dense weights, so reload_alias_map must be None")
        if self.continue_training and not self.clear_nn:
            raise ValueError("continue_training keeps the step of clear_nn; set clear_nn, or leave it out")


def clears_weights(config: RestoreConfig, model_dir: Path) -> bool:
    """Return whether to start with new dense weights; a marker in the folder says that this has happened."""
    return config.clear_nn and not path_exists(str(model_dir / CLEAR_NN_NAME))


def mark_cleared(model_dir: Path, source: Path) -> None:
    """Leave the marker: from now on dense weights are restored."""
    write_text(str(model_dir / CLEAR_NN_NAME), f"{source}\n")
