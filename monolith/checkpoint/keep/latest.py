"""The newest state in a folder: the newest whole snapshot, with the deltas on it up to the first broken one."""

import os
import warnings
from pathlib import Path

from monolith.checkpoint.format.delta_chain import newest_link
from monolith.checkpoint.format.layout import base_and_number, complete_snapshots, deltas_on, list_snapshots
from monolith.checkpoint.format.manifest import MANIFEST_NAME, check_files, read_manifest
from monolith.checkpoint.keep.model_dir import rename_damaged
from monolith.errors import CorruptFileError, NewerFormatError


def latest_state(model_dir: str | os.PathLike[str], *, checked: bool = True) -> Path | None:
    """Return the newest snapshot or delta that can be restored; None if there is none.

    A damaged one is skipped with a warning that names it. With `checked=False` no file is read: the newest one that was
    written completely is returned.

    Raises:
        NewerFormatError: The newest whole one was written by a later release.
    """
    if not checked:
        written = complete_snapshots(model_dir)[-1:]
        written += [path for base in written for path in deltas_on(base) if (path / MANIFEST_NAME).is_file()]
        return written[-1] if written else None
    for base in reversed(list_snapshots(model_dir)):
        try:
            check_files(base, read_manifest(base))
        except NewerFormatError:
            raise  # it is whole: what was trained since an older one must not be lost unasked
        except (CorruptFileError, FileNotFoundError) as error:
            warnings.warn(f"snapshot {base} is not used: {error}", stacklevel=2)
        else:
            return newest_link(base)
    return None


def set_aside_broken(newest: Path) -> list[Path]:
    """Rename deltas behind `newest`, which cannot be restored, to `<name>.damaged`; returns the new names."""
    base, number = base_and_number(newest)
    return rename_damaged(path for path in deltas_on(base) if base_and_number(path)[1] > number)
