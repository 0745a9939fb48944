"""The part of a model that one process holds, and how it goes to the files of a snapshot and back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from safetensors import safe_open
from torch import Tensor

from monolith.checkpoint.format.delta_chain import chain_to
from monolith.checkpoint.format.layout import DENSE_NAME, FILTERS_NAME, TABLES_NAME
from monolith.checkpoint.format.tensor_file import save_tensors
from monolith.checkpoint.restore.apply_delta import restore_filter
from monolith.checkpoint.restore.checked_rows import CheckedRows
from monolith.embedding.hash_shards import check_shard, shards_of_ids
from monolith.model import LookupPlan, admission_filters, make_tables


class Shard(Protocol):
    """A process that holds a part of a model; all arguments are plain values, so that they travel easily."""

    def is_initialized(self) -> bool:
        """Return whether it has the state it should have: a process that has just started has not."""
        ...

    def mark_initialized(self) -> None:
        """Let it know that it has its state, until it ends."""
        ...

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return time and step of the newest update of each of its tables."""
        ...

    def save_part(self, folder: str, progress: Mapping[str, tuple[int, int]], generation: int, epoch: int) -> None:
        """Write its files into the folder of a snapshot that is being written."""
        ...

    def restore_part(self, path: str) -> None:
        """Become what it was in a snapshot or delta, whose files are checked; of whatever number of shards."""
        ...


def dense_part_name(index: int, num_shards: int) -> str:
    """Return the name of the file for the dense tensors of a shard, while a snapshot is being written."""
    return f"dense-{index:05d}-of-{num_shards:05d}.safetensors"


def filter_parts(folder: Path, index: int) -> Path:
    """Return the folder for the filters of a shard, while a snapshot is being written."""
    return folder / FILTERS_NAME / f".part-{index}"


class TableShard:
    """The rows of a range of hashes, and dense tensors of its own; a `Shard` inside this process."""

    def __init__(self, index: int, num_shards: int, plan: LookupPlan, dense: Mapping[str, Tensor]) -> None:
        """Make empty tables; `dense` are the tensors that live here, changed in place by a restore."""
        check_shard((index, num_shards))
        self.tables = make_tables(plan, shard=(index, num_shards))
        self.dense = dict(dense)
        self._index = index
        self._num_shards = num_shards
        self._plan = plan
        self._is_initialized = False

    def is_initialized(self) -> bool:
        """Return whether it has the state it should have."""
        return self._is_initialized

    def mark_initialized(self) -> None:
        """Note that it has its state."""
        self._is_initialized = True

    def owns(self, ids: Tensor) -> Tensor:
        """Return for each id whether its row belongs here."""
        return shards_of_ids(ids, self._num_shards) == self._index

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return time and step of the newest update of each table."""
        return {name: (table.native.max_time, table.native.max_step) for name, table in self.tables.tables.items()}

    def save_part(self, folder: str, progress: Mapping[str, tuple[int, int]], generation: int, epoch: int) -> None:
        """Write one file per table, its part of the filters, and the dense tensors."""
        for name, table in self.tables.tables.items():
            # All files of a table are of one save, so they have the same newest time and step.
            max_time, max_step = progress[name]
            table.native.raise_max_time(max_time)
            table.native.raise_max_step(max_step)
            table.freeze().save_shard(
                Path(folder) / TABLES_NAME / name,
                (self._index, self._num_shards),
                plan_hash=self._plan.hash,
                generation=generation,
                epoch=epoch,
            )
        parts = filter_parts(Path(folder), self._index)
        parts.mkdir()
        for name, admission in admission_filters(self.tables).items():
            admission.save(parts / name)
        save_tensors(self.dense, Path(folder) / dense_part_name(self._index, self._num_shards))

    def restore_part(self, path: str) -> None:
        """Read its rows from all links of the chain, their counts, and its dense tensors.

        All of it is checked before anything changes: a process that lives on must not be left with parts.
        """
        links = chain_to(Path(path))
        dense = self._read_dense(links[-1])
        rows = CheckedRows(links, self.tables.tables, shard=(self._index, self._num_shards))
        for name, admission in admission_filters(self.tables).items():
            restore_filter(links, name, admission)
        for name, tensor in self.dense.items():
            tensor.copy_(dense[name])
        rows.load()

    def _read_dense(self, link: Path) -> dict[str, Tensor]:
        with safe_open(link / DENSE_NAME, framework="pt") as saved:
            names = set(saved.keys())
            for name in self.dense:
                if name not in names:
                    raise ValueError(f"{link} has no dense tensor {name!r}; it was saved by another model")
            found = {name: saved.get_tensor(name) for name in self.dense}
        for name, tensor in self.dense.items():
            if found[name].shape != tensor.shape:
                raise ValueError(
                    f"{link} has the dense tensor {name!r} in shape {tuple(found[name].shape)}, here it is "
                    f"{tuple(tensor.shape)}; it was saved by another model"
                )
        return found
