"""PartialRecoverySaver: snapshots of several processes, restored only into those that are new."""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from safetensors.torch import load_file

from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.dense_parts import joined_dense_parts
from monolith.checkpoint.format.durable_files import make_folder
from monolith.checkpoint.format.layout import (
    DENSE_NAME,
    FILTERS_NAME,
    STREAM_NAME,
    TABLES_NAME,
    TEMPORARY_SUFFIX,
    complete_snapshots,
    move_into_place,
    snapshot_path,
)
from monolith.checkpoint.format.manifest import Manifest, list_files, write_manifest
from monolith.checkpoint.format.state_files.monolith_file import add_exempt_paths, exempt_checkpoints, note_save
from monolith.checkpoint.format.tensor_file import save_tensors
from monolith.checkpoint.format.write_errors import writing_of
from monolith.checkpoint.keep.generations import commit_by
from monolith.checkpoint.keep.retention import Retention, retire_snapshots
from monolith.checkpoint.restore.snapshot import check_plan
from monolith.checkpoint.shards.table_shard import Shard, dense_part_name, filter_parts
from monolith.embedding.admission import join_filters
from monolith.model import LookupPlan, make_filters

R = TypeVar("R")


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
        target = snapshot_path(self._model_dir, step)
        temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
        with writing_of(target, temporary):
            make_folder(self._model_dir)
            with commit_by(generation, target):
                shutil.rmtree(temporary, ignore_errors=True)
            for name in (TABLES_NAME, FILTERS_NAME):
                (temporary / name).mkdir(parents=True)
            progress = self._progress()
            self._ask_all(lambda shard: shard.save_part(str(temporary), progress, generation, epoch))
            self._join_filters(temporary)
            self._merge_dense(temporary)
            (temporary / STREAM_NAME).write_text(json.dumps(dict(stream or {}), sort_keys=True))
            manifest = Manifest(
                step=step,
                generation=generation,
                epoch=epoch,
                plan_hash=self._plan.hash,
                plan=self._plan.to_json(),
                extra=dict(extra or {}),
                files=list_files(temporary),
            )
            write_manifest(temporary, manifest)
            with commit_by(generation, target):
                move_into_place(temporary, target)
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
        self._ask_all(lambda shard: shard.restore_part(str(path)), chosen)
        return chosen

    def setup_ps_initialized_state(self) -> None:
        """Let the monitor note that all processes have their state now."""
        if self._monitor is not None:
            self._monitor.setup_ps_initialized_state()

    def _progress(self) -> dict[str, tuple[int, int]]:
        newest: dict[str, tuple[int, int]] = {}
        for progress in self._ask_all(lambda shard: shard.progress()):
            for name, (time_, step) in progress.items():
                newest_time, newest_step = newest.get(name, (0, 0))
                newest[name] = max(time_, newest_time), max(step, newest_step)
        return newest

    def _ask_all(self, ask: Callable[[Shard], R], chosen: Sequence[int] | None = None) -> list[R]:
        shards = self._shards if chosen is None else [self._shards[index] for index in chosen]
        with ThreadPoolExecutor(max(1, len(shards))) as pool:
            return list(pool.map(ask, shards))

    def _join_filters(self, folder: Path) -> None:
        count = len(self._shards)
        parts = [make_filters(self._plan, (index, count)) for index in range(count)]
        for name in parts[0]:
            for index, part in enumerate(parts):
                part[name].restore(filter_parts(folder, index) / name)
            join_filters([part[name] for part in parts]).save(folder / FILTERS_NAME / name)
        for index in range(count):
            shutil.rmtree(filter_parts(folder, index))

    def _merge_dense(self, folder: Path) -> None:
        paths = [folder / dense_part_name(index, len(self._shards)) for index in range(len(self._shards))]
        save_tensors(joined_dense_parts([load_file(path) for path in paths]), folder / DENSE_NAME)
        for path in paths:
            path.unlink()
