"""ParameterSyncHook: servers of one shard, as a sync backend knows them, follow the run."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from monolith.export.versions import shard_folder
from monolith.hooks import Hook, RunContext, StepValues


class SyncBackend(Protocol):
    """What knows the servers of each shard, with the original's method."""

    def get_sync_targets(self, sub_graph: str) -> tuple[str, Sequence[str] | Mapping[str, object]]:
        """Return a name and the addresses for "ps_1"; as a mapping, what is known of each address."""
        ...


class ParameterSyncHook(Hook):
    """Lets a live run send its changes to the servers that a backend names for a shard.

    The run pushes every `sync_every_seconds`, in the background; a push that fails is given back and repeated. The
    backend is asked again every `refresh_interval` steps.
    """

    def __init__(self, sync_backend: SyncBackend, ps_index: int, refresh_interval: int = 100) -> None:
        """Ask `sync_backend` for the servers of shard `ps_index`."""
        if refresh_interval < 1:
            raise ValueError(f"refresh_interval must be at least 1 step, got {refresh_interval}")
        if ps_index < 0:
            raise ValueError(f"ps_index counts shards from 0, got {ps_index}")
        self._backend, self._name, self._every = sync_backend, shard_folder(ps_index), refresh_interval
        self._targets: list[str] | None = None
        self._num_steps = 0

    @property
    def targets(self) -> list[str]:
        """Where the servers take deltas, as the backend said last."""
        if self._targets is None:
            self._refresh()
        return list(self._targets or ())

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Ask the backend, if it is time to."""
        self._num_steps += 1
        if self._num_steps % self._every == 0:
            self._refresh()

    def _refresh(self) -> None:
        _, found = self._backend.get_sync_targets(self._name)
        self._targets = list(found)
