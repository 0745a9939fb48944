"""ServedShard: the shard that a parameter server holds, with the clients that use its tables."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from monolith.checkpoint import load_dense_only
from monolith.checkpoint.shards import TableShard
from monolith.checkpoint.shards.notes import ShardNotes
from monolith.model import LookupPlan
from monolith.parallel.control import BeginAgainError
from monolith.parallel.dense_shard import DenseShard
from monolith.parallel.table_server import ServedTables

CUT_SECONDS = 10.0
"""How long a new generation waits for requests whose connections were cut: a change takes milliseconds."""

_MAX_FREEZES = 20
"""How often a moment is taken again because a client changed rows meanwhile."""


class ServedShard(TableShard):
    """A shard whose tables clients use; it notes which batches they have pushed."""

    def __init__(
        self, index: int, num_shards: int, plan: LookupPlan, *, initial_capacity: int, generation: int
    ) -> None:
        """Make empty tables, not ready for clients."""
        super().__init__(index, num_shards, plan, {}, initial_capacity=initial_capacity)
        self.plan = plan
        self.dense_shard = DenseShard()
        self.generation = generation
        self.is_ready = False
        self.served = self._serve()

    def begin_generation(self, generation: int) -> None:
        """Cut all clients: they belong to an earlier generation. Rows stay; so do all batches that are in them.

        Raises:
            BeginAgainError: A request of a client did not end in time; the generation is the earlier one.
        """
        self.is_ready = False  # also if this fails: clients are asked to wait, where a hello would be cut off at once
        self.served.close()
        # A change under way is carried out: its batch must count as applied.
        if not self.served.wait_until_idle(CUT_SECONDS):
            raise BeginAgainError(
                f"{self.served.num_connections} requests of generation {self.generation} did not end within "
                f"{CUT_SECONDS:g} s after their connections were cut; begin again, or start this parameter server anew"
            )
        applied = self.served.applied_batches()
        self.generation = generation
        self.served = self._serve()
        self.served.restore_applied_batches(applied)

    def freeze(self, save: str, progress: Mapping[str, tuple[int, int]], track: bool) -> bool:
        """Take this moment; the notes name exactly the batches that are in the rows.

        A save does not wait for a client that is late. If it pushes meanwhile, the moment is taken again.
        """
        if self._frozen is not None and self._frozen[0] == save:
            return super().freeze(save, progress, track)
        for _ in range(_MAX_FREEZES):
            before = self.notes()
            is_known = super().freeze(save, progress, track)
            # Reading the notes waits for pushes under way: equal ones mean that none met the moment.
            if self.notes() == before:
                return is_known
            self.drop_part(save)
            self.stop_tracking()  # what had changed went with the part: the next one is whole
        raise BeginAgainError(
            f"clients changed rows during each of {_MAX_FREEZES} attempts to take one moment of them for a save; stop "
            "the clients that do not wait for saves, and begin again"
        )

    def notes(self) -> ShardNotes:
        """Return also which batches were applied."""
        return replace(
            super().notes(),
            applied=self.served.applied_batches(),
            dense_applied=self.dense_shard.applied_batches(),
        )

    def restore_notes(self, notes: ShardNotes) -> None:
        """Go on from what `notes` returned."""
        super().restore_notes(notes)
        self.served.restore_applied_batches(notes.applied)

    def dense_tensors(self) -> dict[str, Tensor]:
        """Return copies of the dense tensors that the chief created here."""
        return self.dense_shard.tensors()

    def read_dense(self, link: Path) -> dict[str, Tensor]:
        """Return the dense tensors of a snapshot, if the chief has created those that live here."""
        return load_dense_only(link) if self.dense_shard.is_created else {}

    def restore_dense(self, tensors: Mapping[str, Tensor], notes: ShardNotes, step: int) -> None:
        """Change the dense tensors that live here; where there are none, the chief creates them later."""
        if tensors:
            self.dense_shard.restore(tensors, global_step=step, applied=notes.dense_applied)

    def _serve(self) -> ServedTables:
        index, num_shards = self._place
        return ServedTables(
            self.tables,
            shard=index,
            num_shards=num_shards,
            plan_hash=self.plan.hash,
            generation=self.generation,
        )
