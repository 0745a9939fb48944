"""FoundTargets: where the servers of a model take deltas, as settings list them or a discovery finds them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from monolith.closing import Closing
from monolith.cluster.discovery import ServiceDiscovery, discovery_from
from monolith.export.sharded.entry import ENTRY
from monolith.export.versions import shard_folder
from monolith.train.live.live_config import PAUSE_FILE, is_discovery


@runtime_checkable
class SyncBackend(Protocol):
    """What knows the servers of each shard, with the original's method."""

    def get_sync_targets(self, sub_graph: str) -> tuple[str, Sequence[str] | Mapping[str, object]]:
        """Return a name and the addresses for "ps_1"; as a mapping, what is known of each address."""
        ...


class FoundTargets(Closing):
    """The addresses of all servers that follow a model: replicas of its shards, and entries."""

    def __init__(self, targets: Sequence[str], *, num_shards: int, backend: SyncBackend | None = None) -> None:
        """Connect to the discoveries among the targets; the model is served in `num_shards` shards."""
        self._addresses = [one for one in targets if not is_discovery(one)]
        self._discoveries: list[ServiceDiscovery] = [discovery_from(one) for one in targets if is_discovery(one)]
        self._backend = backend
        self._names = [shard_folder(shard) for shard in range(num_shards)]

    @property
    def fixed(self) -> list[str] | None:
        """All addresses, if they never change; None if they have to be looked up."""
        return None if self._discoveries or self._backend is not None else list(self._addresses)

    def __call__(self) -> list[str]:
        """Return the addresses as they are now."""
        found = list(self._addresses)
        for discovery in self._discoveries:
            for name in (*self._names, ENTRY):
                found += discovery.query(name).values()
        if self._backend is not None:
            for name in (*self._names, ENTRY):
                found += list(self._backend.get_sync_targets(name)[1])
        return list(dict.fromkeys(found))

    def close(self) -> None:
        """Leave the discoveries."""
        for discovery in self._discoveries:
            discovery.close()


def is_paused(export_base: Path) -> bool:
    """Return whether sends to servers are paused, by a file in the export folder."""
    return os.path.exists(export_base / PAUSE_FILE)
