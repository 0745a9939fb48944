"""The part of a model that one process holds, and how it goes to the files of a snapshot and back."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from safetensors import safe_open
from torch import Tensor

from monolith.checkpoint.format.delta_chain import chain_to
from monolith.checkpoint.format.layout import DENSE_NAME
from monolith.checkpoint.format.manifest import read_manifest
from monolith.checkpoint.restore.apply_delta import restore_filter
from monolith.checkpoint.restore.checked_rows import CheckedRows
from monolith.checkpoint.save.frozen_rows import SaveMarks
from monolith.checkpoint.shards.frozen_part import FrozenPart
from monolith.checkpoint.shards.notes import ShardNotes, notes_of
from monolith.embedding import ChangeTracker
from monolith.embedding.hash_shards import check_shard, shards_of_ids
from monolith.model import LookupPlan, admission_filters, make_tables


class Shard(Protocol):
    """A process that holds a part of a model; all arguments are plain values, so that they travel easily.

    A save has two steps: `freeze` takes the moment, `write_part` writes it while the rows go on changing. `save` names
    the save; each step of one save may be asked for twice.
    """

    def is_initialized(self) -> bool:
        """Return whether it has the state it should have: a process that has just started has not."""
        ...

    def mark_initialized(self) -> None:
        """Let it know that it has its state, until it ends."""
        ...

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return time and step of the newest update of each of its tables."""
        ...

    def freeze(self, save: str, progress: Mapping[str, tuple[int, int]], track: bool) -> bool:
        """Take this moment; `progress` is the newest of all shards.

        With `track`, changes are taken too, and counted from now on. Returns whether all changes since the last freeze
        are known: a delta can be written only then.
        """
        ...

    def write_part(self, save: str, folder: str, generation: int, epoch: int, changes: bool) -> dict[str, int]:
        """Write what was frozen, or what had changed, into the folder of a snapshot that is being written.

        Returns the names of its table files in there with their CRC-32C.
        """
        ...

    def drop_part(self, save: str) -> None:
        """Let go of what was frozen and not written."""
        ...

    def stop_tracking(self) -> None:
        """Count changes no longer."""
        ...

    def restore_part(self, path: str, drop_not_finite: bool = False, positions: bool = True) -> None:
        """Become what it was in a snapshot or delta, whose files are checked; of whatever number of shards.

        Without `positions`, it is as if no batch had been applied: another stream is trained on.
        """
        ...


class TableShard:
    """The rows of a range of hashes, and dense tensors of its own; a `Shard` inside this process."""

    def __init__(
        self, index: int, num_shards: int, plan: LookupPlan, dense: Mapping[str, Tensor], *, initial_capacity: int = 0
    ) -> None:
        """Make empty tables; `dense` are the tensors that live here, changed in place by a restore."""
        check_shard((index, num_shards))
        self.tables = make_tables(plan, shard=(index, num_shards), initial_capacity=initial_capacity)
        self.dense = dict(dense)
        self._place = (index, num_shards)
        self._plan = plan
        self._is_initialized = False
        self._trackers: dict[str, ChangeTracker] | None = None
        self._frozen: tuple[str, FrozenPart] | None = None

    def is_initialized(self) -> bool:
        """Return whether it has the state it should have."""
        return self._is_initialized

    def mark_initialized(self) -> None:
        """Note that it has its state."""
        self._is_initialized = True

    def owns(self, ids: Tensor) -> Tensor:
        """Return for each id whether its row belongs here."""
        index, num_shards = self._place
        return shards_of_ids(ids, num_shards) == index

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return time and step of the newest update of each table."""
        return {name: (table.native.max_time, table.native.max_step) for name, table in self.tables.tables.items()}

    def freeze(self, save: str, progress: Mapping[str, tuple[int, int]], track: bool) -> bool:
        """Take this moment of tables, filters, dense tensors and notes."""
        if self._frozen is not None and self._frozen[0] == save:
            return self._frozen[1].knows_changes
        self._drop()
        for name, (max_time, max_step) in progress.items():
            # All files of a table are of one save, so they have the same newest time and step.
            self.tables[name].native.raise_max_time(max_time)
            self.tables[name].native.raise_max_step(max_step)
        knows_changes = self._trackers is not None
        if track and self._trackers is None:
            self._trackers = {name: table.track_changes() for name, table in self.tables.tables.items()}
        part = FrozenPart(
            self.tables,
            self._place,
            trackers=self._trackers,
            knows_changes=knows_changes,
            dense=self.dense_tensors(),
            notes=self.notes(),
        )
        self._frozen = save, part
        return part.knows_changes

    def write_part(self, save: str, folder: str, generation: int, epoch: int, changes: bool) -> dict[str, int]:
        """Write one file per table, its part of the filters, the dense tensors and the notes."""
        if self._frozen is None or self._frozen[0] != save:
            index, num_shards = self._place
            raise ValueError(
                f"shard {index} of {num_shards} has frozen nothing for this save; it was started anew since: save again"
            )
        marks = SaveMarks(plan_hash=self._plan.hash, generation=generation, epoch=epoch)
        try:
            return self._frozen[1].write(Path(folder), marks, changes=changes)
        finally:
            self._drop()

    def drop_part(self, save: str) -> None:
        """Let go of what was frozen and not written."""
        if self._frozen is not None and self._frozen[0] == save:
            self._drop()

    def stop_tracking(self) -> None:
        """Count changes no longer."""
        for tracker in (self._trackers or {}).values():
            tracker.close()
        self._trackers = None

    def forget(self, ids: Mapping[str, Collection[int]]) -> dict[str, dict[str, list[int]]]:
        """Remove rows and counts of ids, as `MultiTable.forget`; the next save is whole.

        Changes are not counted any more: a delta would name the ids.
        """
        self.stop_tracking()
        return self.tables.forget(ids)

    def restore_part(self, path: str, drop_not_finite: bool = False, positions: bool = True) -> None:
        """Read its rows from all links of the chain, their counts, its dense tensors and its notes.

        All of it is checked before anything changes: a process that lives on must not be left with parts.
        """
        links = chain_to(Path(path))
        manifest = read_manifest(links[-1])
        notes = notes_of(links[-1], manifest.extra, self._place, positions=positions)
        dense = self.read_dense(links[-1])
        rows = CheckedRows(links, self.tables.tables, shard=self._place, drop_not_finite=drop_not_finite)
        self._drop()
        self.stop_tracking()
        for name, admission in admission_filters(self.tables).items():
            restore_filter(links, name, admission)
        self.restore_dense(dense, notes, manifest.step)
        rows.load()
        self.restore_notes(notes)

    def dense_tensors(self) -> dict[str, Tensor]:
        """Return copies of the dense tensors that live here."""
        return {name: tensor.detach().clone() for name, tensor in self.dense.items()}

    def restore_dense(self, tensors: Mapping[str, Tensor], notes: ShardNotes, step: int) -> None:
        """Change the dense tensors that live here to what `read_dense` returned, of a snapshot of this step."""
        for name, tensor in self.dense.items():
            tensor.copy_(tensors[name])

    def notes(self) -> ShardNotes:
        """Return what else this shard knows: the draws of its probabilistic filters."""
        draws = {name: admission.num_draws for name, admission in admission_filters(self.tables).items()}
        return ShardNotes(draws={name: count for name, count in draws.items() if count})

    def restore_notes(self, notes: ShardNotes) -> None:
        """Go on from what `notes` returned."""
        for name, admission in admission_filters(self.tables).items():
            admission.num_draws = notes.draws.get(name, 0)

    def _drop(self) -> None:
        if self._frozen is not None:
            self._frozen[1].close()
            self._frozen = None

    def read_dense(self, link: Path) -> dict[str, Tensor]:
        """Return the dense tensors of a snapshot that belong here; a ValueError names one that does not fit."""
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
