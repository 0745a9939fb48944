"""PartialRecoverySaver: snapshots of several processes, restored only into those that are new."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.layout import complete_snapshots
from monolith.checkpoint.format.state_files.monolith_file import add_exempt_paths, exempt_checkpoints, note_save
from monolith.checkpoint.keep.retention import Retention, retire_snapshots
from monolith.checkpoint.restore.snapshot import check_plan
from monolith.checkpoint.save.frozen_state import FrozenState
from monolith.checkpoint.shards.frozen_shards import FrozenShards, ask_all
from monolith.checkpoint.shards.table_shard import Shard
from monolith.model import LookupPlan


class PsMonitor:
    """Tells which processes of a model are new: they have lost what they held, the others have not."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        """Take the processes, in order."""
        self._shards = list(shards)

    def is_ps_uninitialized(self, index: int) -> bool:
        """Return whether a process has just started and must be restored."""
        return not self._shards[index].is_initialized()

    def setup_ps_initialized_state(self) -> None:
        """Let all processes know that they have their state; each forgets it only when it ends."""
        for shard in self._shards:
            shard.mark_initialized()


class PartialRecoverySaver:
    """Saves and restores a model whose rows lie in several processes.

    What it writes is a snapshot like any other: one process can restore it, or another number of them. Nobody may
    change rows while `save` runs, for the parts would be of different moments.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        plan: LookupPlan,
        model_dir: str | os.PathLike[str],
        *,
        ps_monitor: PsMonitor | None = None,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10_000.0,
        exempt_checkpoint_paths: Sequence[str] = (),
        skip_save: bool = False,
    ) -> None:
        """Take the processes in order. With a monitor, only those that are new are restored; else all are.

        With `skip_save`, nothing is written: some other process does.
        """
        self._shards = list(shards)
        self._plan = plan
        self._model_dir = Path(model_dir)
        self._monitor = ps_monitor
        self._retention = Retention(max_to_keep=max_to_keep, keep_every_hours=keep_checkpoint_every_n_hours)
        self._skip_save = skip_save
        self._started = time.time()
        if exempt_checkpoint_paths:
            add_exempt_paths(self._model_dir, exempt_checkpoint_paths)

    @property
    def exempt_checkpoint_paths(self) -> list[str]:
        """Snapshots that are never removed, as `monolith_checkpoint` has them now."""
        return exempt_checkpoints(self._model_dir)

    @property
    def last_checkpoints(self) -> list[str]:
        """Snapshots of the folder, oldest first."""
        return [str(path) for path in complete_snapshots(self._model_dir)]

    def save(
        self,
        step: int,
        *,
        stream: Mapping[str, Any] | None = None,
        generation: int = 0,
        epoch: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> Path | None:
        """Let all processes write their parts, commit them as one snapshot, and return it; None with `skip_save`."""
        if self._skip_save:
            return None
        rows = FrozenShards(self._shards, self._plan, track=False)
        try:
            state = FrozenState(
                step=step,
                plan=self._plan,
                tables=None,
                rows=rows,
                dense={},
                stream=stream or {},
                generation=generation,
                epoch=epoch,
                extra=extra,
            )
            target = state.write_snapshot(self._model_dir)
        finally:
            rows.close()
        note_save(self._model_dir, int(time.time()))
        retire_snapshots(self._model_dir, self._retention, started=self._started)
        return target

    def restore(self, path: str | os.PathLike[str]) -> list[int]:
        """Restore processes from a snapshot or delta and return their numbers: those that are new, or all.

        All files are checked first.

        Raises:
            FileNotFoundError, CorruptFileError: It is not whole.
            PlanMismatchError: It is of another model.
        """
        links = chain_to(Path(path))
        for link, manifest in zip(links, check_chain(links), strict=True):
            check_plan(link, manifest, self._plan)
        chosen = [
            index
            for index in range(len(self._shards))
            if self._monitor is None or self._monitor.is_ps_uninitialized(index)
        ]
        ask_all([self._shards[index] for index in chosen], lambda shard: shard.restore_part(str(path)))
        return chosen

    def setup_ps_initialized_state(self) -> None:
        """Let the monitor note that all processes have their state now."""
        if self._monitor is not None:
            self._monitor.setup_ps_initialized_state()
