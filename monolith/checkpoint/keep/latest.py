"""The newest state in a folder: a snapshot with as many deltas as are whole."""

import os
import shutil
from pathlib import Path

from monolith.checkpoint.format.delta_chain import newest_link
from monolith.checkpoint.format.layout import base_and_number, deltas_on
from monolith.checkpoint.keep.model_dir import DAMAGED_SUFFIX, latest_snapshot


def latest_state(model_dir: str | os.PathLike[str]) -> Path | None:
    """Return the newest snapshot or delta that can be restored; None if there is none.

    What is damaged is passed over with a warning that names it.
    """
    base = latest_snapshot(model_dir)
    return None if base is None else newest_link(base)


def set_aside_broken(newest: Path) -> list[Path]:
    """Rename deltas behind `newest`, which cannot be restored, to `<name>.damaged`; returns the new names."""
    base, number = base_and_number(newest)
    aside = []
    for path in deltas_on(base):
        if base_and_number(path)[1] > number:
            name = path.with_name(f"{path.name}{DAMAGED_SUFFIX}")
            shutil.rmtree(name, ignore_errors=True)
            aside.append(path.rename(name))
    return aside
