"""One moment of all shards of a model, and how their parts become the files of one snapshot."""

import json
import logging
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file

from monolith._core import native
from monolith.checkpoint.format.dense_parts import joined_dense_parts
from monolith.checkpoint.format.layout import ERASED_NAME, FILTERS_NAME
from monolith.checkpoint.format.tensor_file import save_tensors
from monolith.checkpoint.save.frozen_rows import Gathered, SaveMarks
from monolith.checkpoint.shards.frozen_part import DENSE_PART, NOTES_PART, filter_parts, part_path
from monolith.checkpoint.shards.notes import ShardNotes, extra_of
from monolith.checkpoint.shards.table_shard import Shard
from monolith.embedding.admission import join_filters
from monolith.model import LookupPlan, make_filters

MAX_ASKED_AT_ONCE = 256
"""Shards that are asked at the same time, by a thread each."""

R = TypeVar("R")
S = TypeVar("S")

_log = logging.getLogger(__name__)


def ask_all(shards: Sequence[S], ask: Callable[[S], R]) -> list[R]:
    """Return the answers of all shards, which are asked at the same time; the first error is raised when all ended."""
    with ThreadPoolExecutor(max(1, min(len(shards), MAX_ASKED_AT_ONCE))) as pool:
        return list(pool.map(ask, shards))


class FrozenShards:
    """The rows and filters of all shards at one moment: `FrozenRows`. Nobody may change rows while this is made."""

    def __init__(self, shards: Sequence[Shard], plan: LookupPlan, *, track: bool) -> None:
        """Freeze all shards, in two rounds: the newest time of each table, then the moment; with `track`, changes."""
        self._shards = list(shards)
        self._plan = plan
        self._save = secrets.token_hex(8)
        self._is_open = True
        try:
            progress = _newest(ask_all(shards, lambda shard: shard.progress()))
            known = ask_all(shards, lambda shard: shard.freeze(self._save, progress, track))
        except BaseException:
            self.close()
            raise
        self.overflowed = not all(known)

    def write(self, folder: Path, marks: SaveMarks, *, num_shards: int | None, in_parallel: bool) -> dict[str, int]:
        """Let every shard write its rows, one file per table, and put their filters together."""
        return self._write(folder, marks, changes=False)

    def write_changes(self, folder: Path, marks: SaveMarks) -> dict[str, int]:
        """Let every shard write what changed, and put the erased ids together; filters are written whole."""
        written = self._write(folder, marks, changes=True)
        parts = [load_file(path) for path in self._part_paths(folder, ERASED_NAME)]
        save_tensors({name: torch.cat([part[name] for part in parts]) for name in parts[0]}, folder / ERASED_NAME)
        self._remove_parts(folder, ERASED_NAME)
        return written

    def gather(self, folder: Path) -> Gathered:
        """Return the dense tensors and notes of all shards."""
        dense = joined_dense_parts([load_file(path) for path in self._part_paths(folder, DENSE_PART)])
        notes = [ShardNotes.from_json(json.loads(path.read_text())) for path in self._part_paths(folder, NOTES_PART)]
        for name in (DENSE_PART, NOTES_PART):
            self._remove_parts(folder, name)
        return Gathered(dense, extra_of(notes))

    def close(self) -> None:
        """Let the shards go of what was not written; one that cannot be asked is left alone."""
        if not self._is_open:
            return
        self._is_open = False

        def drop(shard: Shard) -> None:
            try:
                shard.drop_part(self._save)
            except Exception as error:  # noqa: BLE001  it drops the part by itself at the next freeze
                _log.warning("a shard still holds what it froze for a save that failed: %s", error)

        ask_all(self._shards, drop)

    def _write(self, folder: Path, marks: SaveMarks, *, changes: bool) -> dict[str, int]:
        def write(shard: Shard) -> dict[str, int]:
            return shard.write_part(self._save, str(folder), marks.generation, marks.epoch, changes)

        written = {str(folder / name): crc for part in ask_all(self._shards, write) for name, crc in part.items()}
        self._is_open = False
        self._join_filters(folder)
        return written

    def _join_filters(self, folder: Path) -> None:
        count = len(self._shards)
        names = [
            name
            for name, admission in make_filters(self._plan, (0, count)).items()
            if isinstance(admission.native_filter, native.SlidingHashFilter)  # others write no files
        ]
        for name in names:
            parts = [make_filters(self._plan, (index, count))[name] for index in range(count)]
            for index, part in enumerate(parts):
                part.restore(filter_parts(folder, index) / name)
            join_filters(parts).save(folder / FILTERS_NAME / name)
        for index in range(count):
            shutil.rmtree(filter_parts(folder, index))

    def _part_paths(self, folder: Path, name: str) -> list[Path]:
        return [part_path(folder, name, (index, len(self._shards))) for index in range(len(self._shards))]

    def _remove_parts(self, folder: Path, name: str) -> None:
        for path in self._part_paths(folder, name):
            path.unlink()


def _newest(progress: Sequence[Mapping[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Return the newest time and step of each table on any shard."""
    newest: dict[str, tuple[int, int]] = {}
    for one in progress:
        for name, (time, step) in one.items():
            newest_time, newest_step = newest.get(name, (0, 0))
            newest[name] = max(time, newest_time), max(step, newest_step)
    return newest
