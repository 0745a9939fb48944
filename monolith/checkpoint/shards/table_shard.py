"""The part of a model that one process holds, and how it goes to the files of a snapshot and back."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors import safe_open
from torch import Tensor

from monolith._core import native
from monolith.checkpoint.format.delta_chain import chain_to
from monolith.checkpoint.format.layout import DENSE_NAME, FILTERS_NAME, TABLES_NAME
from monolith.checkpoint.format.tensor_file import save_tensors
from monolith.checkpoint.restore.apply_delta import restore_filter
from monolith.checkpoint.restore.checked_rows import CheckedRows
from monolith.errors import CorruptFileError
from monolith.model import LookupPlan, admission_filters, make_tables

_BUCKETS_PER_SUB_TABLE = native.NUM_BUCKETS // native.NUM_SUB_TABLES


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


def shard_buckets(index: int, num_shards: int) -> tuple[int, int]:
    """Return the first bucket of a shard, and the one after its last.

    >>> [shard_buckets(index, 3) for index in range(3)]
    [(0, 340), (340, 680), (680, 1024)]
    """
    first, last = (native.NUM_SUB_TABLES * one // num_shards for one in (index, index + 1))
    return first * _BUCKETS_PER_SUB_TABLE, last * _BUCKETS_PER_SUB_TABLE


def dense_part_name(index: int, num_shards: int) -> str:
    """Return the name of the file for the dense tensors of a shard, while a snapshot is being written."""
    return f"dense-{index:05d}-of-{num_shards:05d}.safetensors"


def filter_parts(folder: Path, index: int) -> Path:
    """Return the folder for the filters of a shard, while a snapshot is being written."""
    return folder / FILTERS_NAME / f".part-{index}"


class TableShard:
    """The rows of a range of buckets, and dense tensors of its own; a `Shard` inside this process."""

    def __init__(self, index: int, num_shards: int, plan: LookupPlan, dense: Mapping[str, Tensor]) -> None:
        """Make empty tables; `dense` are the tensors that live here, changed in place by a restore."""
        if not 0 <= index < num_shards <= native.NUM_SUB_TABLES:
            raise ValueError(f"shard {index} of {num_shards}: there can be 1 to {native.NUM_SUB_TABLES} shards")
        self.tables = make_tables(plan, buckets=shard_buckets(index, num_shards))
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
        first, last = shard_buckets(self._index, self._num_shards)
        return torch.tensor([first <= native.bucket_of_id(one) < last for one in ids.tolist()], dtype=torch.bool)

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
            paths = table.save(
                Path(folder) / TABLES_NAME / f".part-{self._index}-{name}",
                num_shards=self._num_shards,
                plan_hash=self._plan.hash,
                generation=generation,
                epoch=epoch,
                drop_expired=False,
            )
            self._keep_own(Path(folder) / TABLES_NAME / name, paths)
        parts = filter_parts(Path(folder), self._index)
        parts.mkdir()
        for name, admission in admission_filters(self.tables).items():
            admission.save(parts / name)
        save_tensors(self.dense, Path(folder) / dense_part_name(self._index, self._num_shards))

    def restore_part(self, path: str) -> None:
        """Read the rows of its buckets from all links of the chain, their counts, and its dense tensors.

        All of it is checked before anything changes: a process that lives on must not be left with parts.
        """
        links = chain_to(Path(path))
        dense = self._read_dense(links[-1])
        rows = CheckedRows(links, self.tables.tables)
        for name, admission in admission_filters(self.tables).items():
            restore_filter(links, name, admission)
        for name, tensor in self.dense.items():
            tensor.copy_(dense[name])
        rows.load(shard_buckets(self._index, self._num_shards))

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

    def _keep_own(self, basename: Path, paths: list[str]) -> None:
        for shard, path in enumerate(paths):
            if shard == self._index:
                os.rename(path, native.shard_file_name(os.fspath(basename), shard, self._num_shards))
                continue
            if native.read_table_file_info(path).num_rows:
                raise CorruptFileError(
                    f"shard {self._index} of {self._num_shards} holds rows of shard {shard}; send each id to its shard"
                )
            os.unlink(path)
