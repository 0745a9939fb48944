"""The saves of one run: snapshots, and deltas on the newest of them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monolith.checkpoint.keeping.object_store import SnapshotStore
from monolith.checkpoint.keeping.retention import Retention, kept_for_good, retire_snapshots
from monolith.checkpoint.layout import list_deltas, list_snapshots
from monolith.checkpoint.restoring.delta_chain import remove_orphans
from monolith.checkpoint.saving.frozen_state import FrozenState
from monolith.checkpoint.saving.pending_save import PendingSave
from monolith.checkpoint.state_files.monolith_file import note_save
from monolith.embedding import ChangeTracker, MultiTable
from monolith.model import LookupPlan, admission_filters


class SaveSeries:
    """Saves one state again and again into one folder, one save at a time: a second one waits for the first.

    What went wrong with a save is told by what `begin` returned for it, and by `wait`; the next one is silent on it.

    Changes are tracked from the first delta that is asked for. That one is a full snapshot, and so is every one that
    has no snapshot of this series to build on or had too many changes to list. After each, the text files `checkpoint`
    and `monolith_checkpoint` say what is there and when it was saved.
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
        """Save into `model_dir`, where those snapshots stay, with their deltas, that `retention` says.

        Without tables, only the dense part is saved, and never as a delta. A `mirror` gets a copy of each, and loses
        those that do not stay (`SnapshotStore.retire`); a save that cannot be copied has failed, and is there all the
        same. Whether another run has taken over is asked of `fenced_by`, if that is another folder than `model_dir`.
        """
        self.pending: PendingSave | None = None
        self._model_dir = model_dir
        self._plan = plan
        self._tables = tables
        self._retention = retention
        self._mirror = mirror
        self._fenced_by = fenced_by
        self._started = time.time()
        self._trackers: dict[str, ChangeTracker] | None = None
        self._previous: Path | None = None  # what the next delta builds on

    def begin(self, *, delta: bool, in_parallel: bool, **state: Any) -> PendingSave:
        """Take this moment and begin to write it; `state` is as for `FrozenState`.

        With `in_parallel`, all cores write: for callers that wait for the end.
        """
        if self.pending is not None:
            self.pending.join()
        if delta and self._trackers is None and self._tables is not None:
            self._trackers = {name: table.track_changes() for name, table in self._tables.tables.items()}
            self._track_filters(True)
            self._previous = None
        frozen = FrozenState(
            plan=self._plan, tables=self._tables, trackers=self._trackers, fenced_by=self._fenced_by, **state
        )
        # Until it is written there is nothing to build on: its changes are taken, and lost if it fails.
        previous, self._previous = self._previous, None
        write: Callable[[], Path]
        if delta and previous is not None and not frozen.overflowed:
            write = lambda: frozen.write_delta(previous, in_parallel=in_parallel)  # noqa: E731
        else:
            write = lambda: frozen.write_snapshot(self._model_dir, in_parallel=in_parallel)  # noqa: E731
        self.pending = PendingSave(lambda: self._finish(write))
        return self.pending

    def wait(self) -> Path | None:
        """Wait for a save under way and return it, or raise what went wrong; None if nothing was saved yet."""
        return None if self.pending is None else self.pending.wait()

    def close(self) -> BaseException | None:
        """Wait for a save under way, stop tracking changes, and return what went wrong with the last one."""
        failure = None if self.pending is None else self.pending.join()
        for tracker in (self._trackers or {}).values():
            tracker.close()
        if self._trackers is not None:
            self._track_filters(False)
        self._trackers = None
        return failure

    def _track_filters(self, on: bool) -> None:
        for admission in ({} if self._tables is None else admission_filters(self._tables)).values():
            admission.track_changes(on)

    def _finish(self, write: Callable[[], Path]) -> Path:
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
