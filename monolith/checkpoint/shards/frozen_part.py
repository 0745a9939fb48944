"""One moment of a shard, and the files it leaves in the folder of a snapshot that is being written."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from torch import Tensor

from monolith.checkpoint.format.layout import ERASED_NAME, FILTERS_NAME, TABLES_NAME
from monolith.checkpoint.format.tensor_file import save_tensors
from monolith.checkpoint.save.frozen_rows import SaveMarks
from monolith.checkpoint.shards.notes import ShardNotes
from monolith.embedding import ChangeTracker, MultiTable
from monolith.embedding.hash_shards import HashShard
from monolith.model import admission_filters


def part_path(folder: Path, name: str, place: HashShard) -> Path:
    """Return where a shard leaves its part of a file, until all parts are put together.

    >>> part_path(Path("tmp"), "dense.safetensors", (1, 2)).name
    'dense.safetensors-00001-of-00002'
    """
    index, num_shards = place
    return folder / f"{name}-{index:05d}-of-{num_shards:05d}"


def filter_parts(folder: Path, index: int) -> Path:
    """Return the folder for the filters of a shard, while a snapshot is being written."""
    return folder / FILTERS_NAME / f".part-{index}"


DENSE_PART = "dense-part.safetensors"
NOTES_PART = "notes-part.json"


class FrozenPart:
    """Tables, filters, dense tensors and notes of a shard at one moment; written once, or closed."""

    def __init__(
        self,
        tables: MultiTable,
        place: HashShard,
        *,
        trackers: Mapping[str, ChangeTracker] | None,
        knows_changes: bool,
        dense: Mapping[str, Tensor],
        notes: ShardNotes,
    ) -> None:
        """Freeze tables and filters; `dense` are copies.

        `knows_changes` says that the trackers were there at the last freeze.
        """
        self._place = place
        self._dense = dict(dense)
        self._notes = notes
        self._filters = admission_filters(tables)
        with ExitStack() as undo:
            self._tables = {}
            for name, table in tables.tables.items():
                self._tables[name] = table.freeze(trackers[name] if trackers else None)
                undo.callback(self._tables[name].close)
            for admission in self._filters.values():
                admission.freeze()
                undo.callback(admission.drop_frozen)
            self._ends = undo.pop_all()
        self.knows_changes = knows_changes and not any(table.overflowed for table in self._tables.values())
        """Whether a delta can be written."""

    def write(self, folder: Path, marks: SaveMarks, *, changes: bool) -> dict[str, int]:
        """Write its files; return the names of table files with their CRC-32C."""
        written: dict[str, int] = {}
        erased: dict[str, Tensor] = {}
        with self._ends:
            for name, table in self._tables.items():
                base = folder / TABLES_NAME / name
                if changes:
                    paths, erased[name] = table.save_changes(base, self._place, **marks.for_tables())
                else:
                    paths = table.save_shard(base, self._place, **marks.for_tables())
                written |= paths
            parts = filter_parts(folder, self._place[0])
            parts.mkdir()
            for name, admission in self._filters.items():
                admission.save_frozen(parts / name)
        if changes:
            save_tensors(erased, part_path(folder, ERASED_NAME, self._place))
        save_tensors(self._dense, part_path(folder, DENSE_PART, self._place))
        part_path(folder, NOTES_PART, self._place).write_text(json.dumps(self._notes.to_json()))
        return {Path(path).relative_to(folder).as_posix(): crc32c for path, crc32c in written.items()}

    def close(self) -> None:
        """Let go of what was not written."""
        self._ends.close()
