"""Which snapshots are removed when a new one has come, and in which order, so that a crash does no harm."""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from monolith.checkpoint.format.delta_chain import links_before
from monolith.checkpoint.format.durable_files import write_durably
from monolith.checkpoint.format.layout import (
    complete_snapshots,
    list_deltas,
    list_snapshots,
    remove_snapshot,
    state_order,
)
from monolith.checkpoint.format.manifest import read_manifest
from monolith.checkpoint.format.state_files.checkpoint_file import refresh_checkpoint_file, snapshot_time
from monolith.checkpoint.format.state_files.monolith_file import exempt_checkpoints
from monolith.errors import CorruptFileError

PRESERVED_NAME = "preserved"
"""A file of this name in a snapshot's folder keeps the snapshot forever."""

NeededBy = Callable[[Path], set[Path]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How many snapshots stay."""

    max_to_keep: int | None = 5
    """Number of newest snapshots to keep, besides exempt ones and ones kept forever; None or 0 keeps all."""

    keep_every_hours: float = 10_000.0
    """One snapshot in each period of this many hours is kept forever, even if it would be removed."""

    exempt: tuple[str, ...] = ()
    """Names of snapshots that are never removed, besides the names in `monolith_checkpoint`."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.max_to_keep is not None and self.max_to_keep < 0:
            raise ValueError(f"Retention: max_to_keep must not be negative, got {self.max_to_keep}; None keeps all")
        if not self.keep_every_hours > 0:
            raise ValueError(f"Retention: keep_every_hours must be positive, got {self.keep_every_hours}")


def manifest_bases(path: Path) -> set[Path]:
    """Return the folders that are needed to read this snapshot or delta.

    A delta needs the links before it. Both also need the folders that the manifest names as "base".
    """
    try:
        base = read_manifest(path).extra.get("base")
    except (OSError, CorruptFileError):
        return set()  # it cannot be restored, so it needs nothing
    names = [base] if isinstance(base, str) else base if isinstance(base, list) else []
    named = {path.parent / os.path.basename(name) for name in names if isinstance(name, str) and name}
    return named | links_before(path)


def needs(paths: Iterable[Path], needed_by: NeededBy) -> set[Path]:
    """Return everything that the paths need, directly or through other paths."""
    found: set[Path] = set()
    waiting = list(paths)
    while waiting:
        more = needed_by(waiting.pop()) - found
        found |= more
        waiting += more
    return found


def retire_snapshots(
    model_dir: str | os.PathLike[str],
    retention: Retention,
    *,
    started: float | None = None,
    needed_by: NeededBy = manifest_bases,
) -> list[Path]:
    """Remove the oldest snapshots beyond the limit, and update `checkpoint`; return the removed paths.

    Nothing is removed that a kept snapshot or its deltas need. `needed_by` returns what one path needs. The hours of
    `keep_every_hours` count from the newest snapshot that is kept forever, else from `started` (seconds since 1970,
    default: now).
    """
    exempt = _exempt_names(model_dir, retention)
    everything = complete_snapshots(model_dir)
    preserved = [path for path in everything if (path / PRESERVED_NAME).exists()]
    counted = [path for path in everything if path.name not in exempt and path not in preserved]
    too_many = counted[: -retention.max_to_keep] if retention.max_to_keep else []
    last = max((snapshot_time(path) for path in preserved), default=time.time() if started is None else started)
    doomed = []
    for path in too_many:
        written = snapshot_time(path)
        if written > last + retention.keep_every_hours * 3600:
            # On the disk before anything goes: the snapshot must be known as kept after a restart, too.
            write_durably(path / PRESERVED_NAME, b"")
            last = written
            preserved.append(path)
        else:
            doomed.append(path)
    removable = _not_needed(model_dir, doomed, needed_by)
    snapshots = [path for path in removable if path in doomed]
    # `checkpoint` stops naming them first, then each loses its manifest, then the rest.
    refresh_checkpoint_file(model_dir, without=snapshots, last_preserved=last if preserved else None)
    for path in removable:
        remove_snapshot(path)
    return removable


def kept_for_good(model_dir: str | os.PathLike[str], retention: Retention) -> set[str]:
    """Return the names of snapshots that are never removed: exempt ones, and one per `keep_every_hours`."""
    exempt = _exempt_names(model_dir, retention)
    return {path.name for path in list_snapshots(model_dir) if path.name in exempt or (path / PRESERVED_NAME).exists()}


def _not_needed(model_dir: str | os.PathLike[str], doomed: list[Path], needed_by: NeededBy) -> list[Path]:
    """Return the doomed snapshots that nothing which stays needs, each behind the deltas that go with it."""
    staying = [path for path in list_snapshots(model_dir) if path not in doomed]
    oldest_kept = state_order(staying[0])[0] if staying else 0
    deltas = list_deltas(model_dir)
    # A delta is of use for as long as it leads at least to the oldest snapshot that stays: it can take its place.
    useful = [path for path in deltas if _reaches(path) >= oldest_kept]
    held = needs([*staying, *useful], needed_by)
    going = [path for path in doomed if path not in held]
    along = [path for path in deltas if path not in useful and needs([path], needed_by) & set(going)]
    return [*reversed([path for path in along if path not in held]), *going]


def _reaches(delta: Path) -> int:
    try:
        return read_manifest(delta).step
    except (OSError, CorruptFileError):
        return state_order(delta)[0]


def _exempt_names(model_dir: str | os.PathLike[str], retention: Retention) -> set[str]:
    folder = Path(model_dir).resolve()
    listed = {Path(path).resolve() for path in exempt_checkpoints(model_dir)}
    return {path.name for path in listed if path.parent == folder} | {os.path.basename(one) for one in retention.exempt}
