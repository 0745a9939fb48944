"""LocalState: rows on parameter servers inside this process; everything else is as without them."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, cast

from monolith.checkpoint import Saver, Snapshot
from monolith.checkpoint.keep import Retention, SnapshotStore
from monolith.checkpoint.shards import ShardsSaver, load_into_shards
from monolith.data import Batch, Source
from monolith.embedding import MultiTable
from monolith.hooks import Hook
from monolith.model import MonolithModel, Pulled
from monolith.parallel import ParameterServer, RemoteShard, RemoteTables
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.job.served_state import push_named
from monolith.train.loop import RunResult
from monolith.train.run import run
from monolith.train.state import StateConfig, TrainState
from monolith.train.state.clock import Reading
from monolith.train.state.restore_config import RestoreConfig
from monolith.wire import SharedSecret


def run_with_local_servers(
    model: MonolithModel, config: RunnerConfig, *, hooks: Sequence[Hook] = (), **how: Any
) -> RunResult:
    """Train as `run` does, with the rows on `num_ps` parameter servers inside this process.

    Losses, rows, weights and snapshots are the same bit for bit, unless rows travel as fp16.
    """
    job_config(config).make_room_for_files()
    with ExitStack() as cleanup:
        half = config.half_precision_rows
        make_state = partial(LocalState, num_ps=config.num_ps, cleanup=cleanup, half=half)
        return run(model, config, hooks=hooks, make_state=make_state, **how)


class LocalState(TrainState):
    """A state whose rows are on parameter servers of this process; the model keeps its dense weights."""

    def __init__(
        self,
        model: MonolithModel,
        source: Source,
        config: StateConfig,
        *,
        num_ps: int,
        cleanup: ExitStack,
        half: bool = False,
    ) -> None:
        """Start the servers, each at a port of this machine; they end with `cleanup`.

        With `half`, rows and their gradients travel as fp16.
        """
        self._num_ps, self._cleanup, self._half = num_ps, cleanup, half
        super().__init__(model, source, config)

    def saver(self, model_dir: Path, *, retention: Retention, mirror: SnapshotStore | None = None) -> Saver:
        """Return what saves all shards."""
        return ShardsSaver(model_dir, self.plan, self.shards, retention=retention, mirror=mirror)

    def push(self, pulled: Pulled, batch: Batch, reading: Reading) -> None:
        """Step the rows of a batch, on the servers that have not done so."""
        push_named(pulled, batch, global_step=self.global_step, time=reading.time)

    def _make_tables(self, config: StateConfig) -> MultiTable:
        secret = SharedSecret.new("the parameter servers of this process")
        servers = [self._cleanup.enter_context(ParameterServer(secret=secret)) for _ in range(self._num_ps)]
        addresses = [server.address for server in servers]
        self.shards = [self._cleanup.enter_context(RemoteShard(address, secret=secret)) for address in addresses]
        for index, shard in enumerate(self.shards):
            capacity = config.initial_capacity
            shard.init(self.plan, index, self._num_ps, generation=0, initial_capacity=capacity)
            shard.mark_initialized()
        tables = RemoteTables(self.plan.tables(), addresses, plan_hash=self.plan.hash, secret=secret, half=self._half)
        return cast(MultiTable, self._cleanup.enter_context(tables))

    def _draws(self) -> dict[str, int]:
        """Return none: the servers' own come with their parts of a save."""
        return {}

    def _load(self, path: Path, options: RestoreConfig, *, is_own: bool) -> Snapshot:
        return load_into_shards(
            path, self.shards, plan=self.plan, drop_not_finite=options.drop_not_finite, positions=is_own
        )
