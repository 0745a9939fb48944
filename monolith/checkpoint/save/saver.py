"""Saver: snapshots of one state, and deltas on the newest of them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monolith.checkpoint.format.delta_chain import remove_orphans
from monolith.checkpoint.format.layout import list_deltas, list_snapshots
from monolith.checkpoint.format.state_files.monolith_file import note_save
from monolith.checkpoint.keep.object_store import SnapshotStore
from monolith.checkpoint.keep.retention import Retention, kept_for_good, retire_snapshots
from monolith.checkpoint.save.frozen_state import FrozenState
from monolith.checkpoint.save.pending_save import PendingSave
from monolith.embedding import ChangeTracker, MultiTable
from monolith.model import LookupPlan, admission_filters


class Saver:
    """Saves one state into one folder: `begin` a save, `poll` it, `finish` it. One is under way at most.

    The error of a save is raised once, by the `poll` or `finish` that sees its end.

    Changes are tracked from the first requested delta on. The first delta is a full snapshot. So is every delta that
    has no earlier save of this object to build on, or has too many changes to list. After each save, the text files
    `checkpoint` and `monolith_checkpoint` list the snapshots and the time of the save.
    """

    def __init__(
        self,
        model_dir: Path,
        plan: LookupPlan,
        tables: MultiTable | None,
        *,
        retention: Retention,
        mirror: SnapshotStore | None = None,
        fenced_by: Path | None = None,
    ) -> None:
        """Save into `model_dir`; `retention` says which snapshots stay there, with their deltas.

        Without tables, only the dense part is saved, and never as a delta. A `mirror` gets a copy of each save, and
        drops the ones that are not kept (`SnapshotStore.retire`); if mirroring fails the save counts as failed, but
        the local files remain. If `fenced_by` is given, that folder, not `model_dir`, says whether another
        run has taken over.
        """
        self._under_way: tuple[PendingSave, int] | None = None  # with its step
        self._model_dir = model_dir
        self._plan = plan
        self._tables = tables
        self._retention = retention
        self._mirror = mirror
        self._fenced_by = fenced_by
        self._started = time.time()
        self._trackers: dict[str, ChangeTracker] | None = None
        self._previous: Path | None = None  # what the next delta builds on

    @property
    def step(self) -> int | None:
        """The step whose save is under way; None if there is none."""
        return None if self._under_way is None else self._under_way[1]

    @property
    def is_busy(self) -> bool:
        """Whether files are being written."""
        return self._under_way is not None and not self._under_way[0].done

    def begin(self, *, delta: bool, in_parallel: bool, step: int, **state: Any) -> None:
        """Take this moment and begin to write it, after the save under way; `state` is as for `FrozenState`.

        With `in_parallel`, all cores write: for callers that wait for the end.
        """
        self.finish()
        frozen = self._freeze(delta, step=step, plan=self._plan, fenced_by=self._fenced_by, **state)
        # Until it is written there is nothing to build on: its changes are taken, and lost if it fails.
        previous, self._previous = self._previous, None
        write: Callable[[], Path]
        if delta and previous is not None and not frozen.overflowed:
            write = lambda: frozen.write_delta(previous)  # noqa: E731
        else:
            write = lambda: frozen.write_snapshot(self._model_dir, in_parallel=in_parallel)  # noqa: E731
        self._under_way = PendingSave(lambda: self._write(write)), step

    def poll(self) -> Path | None:
        """Return the save that has ended since the last time, or raise its error; None if none has."""
        return None if self.is_busy else self.finish()

    def finish(self) -> Path | None:
        """Wait for the save under way and return it, or raise its error; None if none is under way."""
        if self._under_way is None:
            return None
        (pending, _), self._under_way = self._under_way, None
        return pending.wait()

    def begin_anew(self) -> None:
        """Let the next save be a snapshot, whatever is asked for; wait for the one under way."""
        self.finish()
        self._previous = None

    def close(self) -> BaseException | None:
        """Wait for the save under way, stop tracking changes, and return its error; earlier ones were raised."""
        failure = None
        try:
            self.finish()
        except BaseException as error:  # noqa: BLE001  the caller decides which of several errors to raise
            failure = error
        self._stop_tracking()
        return failure

    def _freeze(self, delta: bool, **state: Any) -> FrozenState:
        """Return this moment; `delta` says that changes are wanted, now or for the next one."""
        if delta and self._trackers is None and self._tables is not None:
            self._trackers = {name: table.track_changes() for name, table in self._tables.tables.items()}
            self._track_filters(True)
            self._previous = None
        return FrozenState(tables=self._tables, trackers=self._trackers, **state)

    def _stop_tracking(self) -> None:
        for tracker in (self._trackers or {}).values():
            tracker.close()
        if self._trackers is not None:
            self._track_filters(False)
        self._trackers = None

    def _track_filters(self, on: bool) -> None:
        for admission in ({} if self._tables is None else admission_filters(self._tables)).values():
            admission.track_changes(on)

    def _write(self, write: Callable[[], Path]) -> Path:
        path = write()
        self._previous = path
        note_save(self._model_dir, int(time.time()))
        retire_snapshots(self._model_dir, self._retention, started=self._started)
        remove_orphans(self._model_dir)
        if self._mirror is not None:
            self._mirror.put(path)
            here = [*list_snapshots(self._model_dir), *list_deltas(self._model_dir)]
            self._mirror.mark_kept(kept_for_good(self._model_dir, self._retention))
            self._mirror.retire({one.name for one in here}, path.name, self._retention.max_to_keep)
        return path
