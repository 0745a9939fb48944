"""Everything a snapshot holds, as it was at one moment."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor

from monolith.checkpoint.format.delta_chain import Link, link_after
from monolith.checkpoint.format.durable_files import make_folder
from monolith.checkpoint.format.layout import (
    DENSE_NAME,
    FILTERS_NAME,
    LINK_NAME,
    STREAM_NAME,
    TABLES_NAME,
    TEMPORARY_SUFFIX,
    delta_path,
    move_into_place,
    snapshot_path,
)
from monolith.checkpoint.format.manifest import Manifest, list_files, write_manifest
from monolith.checkpoint.format.tensor_file import save_tensors
from monolith.checkpoint.format.write_errors import writing_of
from monolith.checkpoint.keep.generations import commit_by
from monolith.checkpoint.save.frozen_rows import FrozenRows, FrozenTables, Gathered, SaveMarks
from monolith.embedding import ChangeTracker, MultiTable
from monolith.model import LookupPlan


class FrozenState:
    """One point in time of all tables, filters and the dense part; training may go on while it is written.

    Rows and counters that training changes meanwhile are set aside first, so this takes a moment, whatever the size.
    `dense` must be copies. Write it once, or close it: tables cannot be frozen twice at a time.
    """

    def __init__(
        self,
        *,
        step: int,
        plan: LookupPlan,
        tables: MultiTable | None,
        dense: Mapping[str, Tensor],
        stream: Mapping[str, Any],
        generation: int,
        epoch: int,
        extra: Mapping[str, Any] | None = None,
        trackers: Mapping[str, ChangeTracker] | None = None,
        rows: FrozenRows | None = None,
        fenced: bool = True,
        fenced_by: Path | None = None,
    ) -> None:
        """Freeze the tables and filters; with `trackers`, by table, changes are taken at the same moment.

        So are those of filters that track them.

        Rows that are frozen already, such as those of other processes, come as `rows` instead of `tables`. Without
        either it is a state of the dense part alone, and `extra` should say so: {"dense_only": True}.

        If `fenced`, writing is a FencedError once a run of a later generation has begun in the folder that is written
        to, or in `fenced_by`, for files that lie elsewhere.
        """
        self.step = step
        self._plan = plan
        self._dense = dict(dense)
        self._marks = SaveMarks(plan_hash=plan.hash, generation=generation, epoch=epoch)
        self._fence = generation if fenced else None
        self._fenced_by = fenced_by
        # As text, because the dictionaries go on changing.
        self._stream = json.dumps(dict(stream), sort_keys=True)
        self._extra = json.dumps(dict(extra or {}))
        self._rows = FrozenTables(tables, trackers) if tables is not None else rows

    @property
    def overflowed(self) -> bool:
        """Whether a table had too many changes to list: a delta of it cannot be written."""
        return self._rows is not None and self._rows.overflowed

    def close(self) -> None:
        """Let go of tables and filters that were not written."""
        if self._rows is not None:
            self._rows.close()

    def write_snapshot(
        self, model_dir: str | os.PathLike[str], *, num_shards: int | None = None, in_parallel: bool = True
    ) -> Path:
        """Write `model.ckpt-<step>/` and return it; after a crash at any moment it is complete or does not exist.

        Expired rows are written too, so that a restored run has the rows that an uninterrupted one has.
        """

        def write_rows(rows: FrozenRows, folder: Path) -> dict[str, int]:
            return rows.write(folder, self._marks, num_shards=num_shards, in_parallel=in_parallel)

        return self._write(snapshot_path(model_dir, self.step), write_rows)

    def write_delta(self, previous: Path) -> Path:
        """Write what changed since `previous`, a snapshot or a delta, as the next link of its chain, and return it."""
        link = link_after(previous)

        def write_rows(rows: FrozenRows, folder: Path) -> dict[str, int]:
            (folder / LINK_NAME).write_text(link.to_json())
            return rows.write_changes(folder, self._marks)

        return self._write(self._delta_folder(previous, link), write_rows)

    @staticmethod
    def _delta_folder(previous: Path, link: Link) -> Path:
        return delta_path(previous.with_name(link.base), link.number)

    def _write(self, target: Path, write_rows: Callable[[FrozenRows, Path], dict[str, int]]) -> Path:
        temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
        checksums, gathered = dict[str, int](), Gathered()
        with nullcontext() if self._rows is None else closing(self._rows), writing_of(target, temporary):
            make_folder(target.parent)
            with commit_by(self._fence, target, self._fenced_by):  # now already, before anything is written for nothing
                shutil.rmtree(temporary, ignore_errors=True)
            (temporary / TABLES_NAME).mkdir(parents=True)
            (temporary / FILTERS_NAME).mkdir()
            if self._rows is not None:
                checksums = write_rows(self._rows, temporary)
        with writing_of(target, temporary):
            if self._rows is not None:
                gathered = self._rows.gather(temporary)
            save_tensors(self._all_dense(gathered), temporary / DENSE_NAME)
            (temporary / STREAM_NAME).write_text(self._stream)
            manifest = Manifest(
                step=self.step,
                plan_hash=self._plan.hash,
                plan=self._plan.to_json(),
                extra=json.loads(self._extra) | gathered.extra,
                files=list_files(temporary, checksums),
                generation=self._marks.generation,
                epoch=self._marks.epoch,
            )
            write_manifest(temporary, manifest)
            with commit_by(self._fence, target, self._fenced_by):
                move_into_place(temporary, target)
        return target

    def _all_dense(self, gathered: Gathered) -> dict[str, Tensor]:
        if twice := sorted(self._dense.keys() & gathered.dense.keys()):
            raise ValueError(f"the dense tensors {', '.join(twice)} are in two processes; each lives in one")
        return self._dense | gathered.dense
