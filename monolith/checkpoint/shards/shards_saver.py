"""ShardsSaver: a `Saver` of a model whose rows lie in several processes; and its way back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.manifest import check_has_rows
from monolith.checkpoint.keep.object_store import SnapshotStore
from monolith.checkpoint.keep.retention import Retention
from monolith.checkpoint.restore.snapshot import Snapshot, check_plan, snapshot_without_rows
from monolith.checkpoint.save.frozen_state import FrozenState
from monolith.checkpoint.save.saver import Saver
from monolith.checkpoint.shards.frozen_shards import FrozenShards, ask_all
from monolith.checkpoint.shards.table_shard import Shard
from monolith.model import LookupPlan


class ShardsSaver(Saver):
    """Saves one model into one folder: `begin` freezes all shards, they write in the background, one manifest commits.

    Nobody may change rows during `begin`. What it writes is a snapshot like any other: one process can restore it, or
    another number of shards. A delta that cannot be one is a full snapshot, as with `Saver`; that is so after a shard
    was started anew.
    """

    def __init__(
        self,
        model_dir: Path,
        plan: LookupPlan,
        shards: Sequence[Shard],
        *,
        retention: Retention,
        mirror: SnapshotStore | None = None,
    ) -> None:
        """Take the shards in order; for the rest see `Saver`."""
        super().__init__(model_dir, plan, None, retention=retention, mirror=mirror)
        self._shards = list(shards)
        self._tracks = False

    def _freeze(self, delta: bool, **state: Any) -> FrozenState:
        self._tracks = self._tracks or delta
        rows = FrozenShards(self._shards, self._plan, track=self._tracks)
        try:
            return FrozenState(tables=None, rows=rows, **state)
        except BaseException:
            rows.close()
            raise

    def _stop_tracking(self) -> None:
        if self._tracks:
            ask_all(self._shards, lambda shard: shard.stop_tracking())
        self._tracks = False


def load_into_shards(
    path: Path,
    shards: Sequence[Shard],
    *,
    plan: LookupPlan,
    drop_not_finite: bool = False,
    positions: bool = True,
) -> Snapshot:
    """Restore rows and filters into all shards and return the rest; see `load_snapshot`, and `Shard.restore_part`.

    It may have been saved by one process, or by another number of shards.
    """
    links = chain_to(path)
    manifests = check_chain(links)
    for link, manifest in zip(links, manifests, strict=True):
        check_plan(link, manifest, plan)
        check_has_rows(link, manifest)
    found = snapshot_without_rows(links[-1], manifests[-1])
    ask_all(shards, lambda shard: shard.restore_part(str(path.absolute()), drop_not_finite, positions))
    return found
