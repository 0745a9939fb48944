"""Everything a snapshot holds, as it was at one moment."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from torch import Tensor

from monolith.checkpoint.format.delta_chain import Link, link_after
from monolith.checkpoint.format.durable_files import make_folder
from monolith.checkpoint.format.layout import (
    DENSE_NAME,
    ERASED_NAME,
    FILTER_CHANGES_SUFFIX,
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
from monolith.embedding import ChangeTracker, MultiTable
from monolith.model import LookupPlan, admission_filters


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
        fenced: bool = True,
        fenced_by: Path | None = None,
    ) -> None:
        """Freeze the tables and filters; with `trackers`, by table, changes are taken at the same moment.

        So are those of filters that track them.

        Without tables it is a state of the dense part alone, and `extra` should say so: {"dense_only": True}.

        If `fenced`, writing is a FencedError once a run of a later generation has begun in the folder that is written
        to, or in `fenced_by`, for files that lie elsewhere.
        """
        self.step = step
        self._plan = plan
        self._dense = dict(dense)
        self._marks = {"generation": generation, "epoch": epoch}
        self._fence = generation if fenced else None
        self._fenced_by = fenced_by
        # As text, because the dictionaries go on changing.
        self._stream = json.dumps(dict(stream), sort_keys=True)
        self._extra = json.dumps(dict(extra or {}))
        self._filters = {} if tables is None else admission_filters(tables)
        with ExitStack() as undo:
            self._tables = {}
            for name, table in ({} if tables is None else tables.tables).items():
                self._tables[name] = table.freeze(trackers[name] if trackers else None)
                undo.callback(self._tables[name].close)
            self._changed_filters = set()
            for name, admission in self._filters.items():
                if admission.freeze(take_changes=trackers is not None):
                    self._changed_filters.add(name)
                undo.callback(admission.drop_frozen)
            self._ends = undo.pop_all()

    @property
    def overflowed(self) -> bool:
        """Whether a table had too many changes to list: a delta of it cannot be written."""
        return any(table.overflowed for table in self._tables.values())

    def close(self) -> None:
        """Let go of tables and filters that were not written."""
        self._ends.close()

    def write_snapshot(
        self, model_dir: str | os.PathLike[str], *, num_shards: int | None = None, in_parallel: bool = True
    ) -> Path:
        """Write `model.ckpt-<step>/` and return it; after a crash at any moment it is complete or does not exist.

        Expired rows are written too, so that a restored run has the rows that an uninterrupted one has.
        """

        def write_tables(folder: Path) -> dict[str, int]:
            written: dict[str, int] = {}
            for name, table in self._tables.items():
                written |= table.save(
                    folder / TABLES_NAME / name,
                    num_shards=num_shards,
                    plan_hash=self._plan.hash,
                    drop_expired=False,
                    in_parallel=in_parallel,
                    **self._marks,
                )
            return written

        return self._write(snapshot_path(model_dir, self.step), write_tables, self._save_filter)

    def write_delta(self, previous: Path, *, in_parallel: bool = True) -> Path:
        """Write what changed since `previous`, a snapshot or a delta, as the next link of its chain, and return it."""
        link = link_after(previous)

        def write_tables(folder: Path) -> dict[str, int]:
            written: dict[str, int] = {}
            erased: dict[str, Tensor] = {}
            for name, table in self._tables.items():
                paths, erased[name] = table.save_changes(
                    folder / TABLES_NAME / name, plan_hash=self._plan.hash, in_parallel=in_parallel, **self._marks
                )
                written |= paths
            save_tensors(erased, folder / ERASED_NAME)
            (folder / LINK_NAME).write_text(link.to_json())
            return written

        return self._write(self._delta_folder(previous, link), write_tables, self._save_filter_changes)

    def _save_filter(self, folder: Path, name: str) -> None:
        self._filters[name].save_frozen(folder / name)

    def _save_filter_changes(self, folder: Path, name: str) -> None:
        if name in self._changed_filters:
            self._filters[name].save_frozen_changes(folder / f"{name}{FILTER_CHANGES_SUFFIX}")
        else:
            self._save_filter(folder, name)

    @staticmethod
    def _delta_folder(previous: Path, link: Link) -> Path:
        return delta_path(previous.with_name(link.base), link.number)

    def _write(
        self, target: Path, write_tables: Callable[[Path], dict[str, int]], save_filter: Callable[[Path, str], None]
    ) -> Path:
        temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
        with self._ends, writing_of(target, temporary):
            make_folder(target.parent)
            with commit_by(self._fence, target, self._fenced_by):  # now already, before anything is written for nothing
                shutil.rmtree(temporary, ignore_errors=True)
            (temporary / TABLES_NAME).mkdir(parents=True)
            (temporary / FILTERS_NAME).mkdir()
            # Tables first: as long as they are frozen, training has to set rows aside.
            checksums = write_tables(temporary)
            for name in self._filters:
                save_filter(temporary / FILTERS_NAME, name)
        with writing_of(target, temporary):
            save_tensors(self._dense, temporary / DENSE_NAME)
            (temporary / STREAM_NAME).write_text(self._stream)
            manifest = Manifest(
                step=self.step,
                plan_hash=self._plan.hash,
                plan=self._plan.to_json(),
                extra=json.loads(self._extra),
                files=list_files(temporary, checksums),
                **self._marks,
            )
            write_manifest(temporary, manifest)
            with commit_by(self._fence, target, self._fenced_by):
                move_into_place(temporary, target)
        return target
