"""Where a run starts from, and what it takes from there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from monolith.checkpoint.state_files.text_files import path_exists, write_text
from monolith.train.config import RunnerConfig

CLEAR_NN_NAME = "clear_nn"
"""Marker in a model's folder: its dense weights were cleared, which happens once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RestoreOptions:
    """What a run takes from the snapshot it starts from; by default all, from the newest."""

    restore_ckpt: str | None = None
    """Name of the snapshot or delta to start from, once; the newest if not given."""

    alias_map: Mapping[str, str] | None = None
    """New name -> old name of dense weights that were renamed."""

    guess_names: bool = True
    """Without an alias map, find out by themselves which weights were renamed."""

    clear_nn: bool = False
    """Once, begin with new dense weights; rows are kept."""

    continue_training: bool = False
    """With `clear_nn`, go on counting steps."""

    drop_not_finite: bool = False
    """Leave out rows that are NaN or infinite somewhere, instead of refusing the snapshot."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.clear_nn and self.alias_map is not None:
            raise ValueError("RestoreOptions: clear_nn begins with new dense weights, so alias_map must be None")
        if self.continue_training and not self.clear_nn:
            raise ValueError("RestoreOptions: continue_training keeps the step of clear_nn; set clear_nn, or leave it")

    @classmethod
    def of(cls, config: RunnerConfig) -> "RestoreOptions":
        """Return what the settings of a run say."""
        return cls(
            restore_ckpt=config.restore_ckpt,
            alias_map=config.reload_alias_map,
            guess_names=config.enable_alias_map_auto_gen is not False,
            clear_nn=config.clear_nn,
            continue_training=config.continue_training and config.clear_nn,
            drop_not_finite=config.drop_not_finite,
        )


def clears_weights(options: RestoreOptions, model_dir: Path) -> bool:
    """Return whether dense weights begin anew; the marker in the folder tells that they did."""
    return options.clear_nn and not path_exists(str(model_dir / CLEAR_NN_NAME))


def mark_cleared(model_dir: Path, source: Path) -> None:
    """Leave the marker: from now on dense weights are restored."""
    write_text(str(model_dir / CLEAR_NN_NAME), f"{source}\n")
