"""A small state on parameter servers, and the same in one process, for tests of both."""

from contextlib import ExitStack

import numpy as np

from monolith._core import native
from monolith.checkpoint import load_snapshot
from monolith.model import make_plan, make_tables
from monolith.parallel import ParameterServer, RemoteShard, RemoteTables, RetryConfig
from monolith.wire import SharedSecret
from tests.checkpoint.small_state import SCHEMA, Model, State
from tests.patience import PATIENCE_SECONDS

SECRET = SharedSecret.new("a test")
QUICK = RetryConfig(deadline_seconds=PATIENCE_SECONDS, attempt_seconds=5.0, first_pause_seconds=0.01)


# A filter that is full forgets ids; shards of one do so at other moments than the whole.
PLAN = make_plan(Model(filter_capacity=30_000), SCHEMA)


class AloneState(State):
    """The same in one process."""

    def __init__(self):
        super().__init__()
        self.tables = make_tables(PLAN)


class ServedState(State):
    """A `State` whose tables are on parameter servers, in this process or at `addresses`."""

    def __init__(self, num_servers, *, addresses=None, generation=1, retry=QUICK, **init):
        self.cleanup = ExitStack()
        self.servers = [] if addresses else [self._start() for _ in range(num_servers)]
        self.addresses = addresses or [server.address for server in self.servers]
        self.shards = [
            self.cleanup.enter_context(RemoteShard(address, secret=SECRET, retry=retry)) for address in self.addresses
        ]
        for index, shard in enumerate(self.shards):
            shard.init(PLAN, index, len(self.shards), generation=generation, **init)
        self.generation = generation
        self.dense = None
        self.step = 0

    def join(self, **settings):
        """Let clients in, and be one."""
        for shard in self.shards:
            shard.mark_initialized()
        given = {"plan_hash": PLAN.hash, "secret": SECRET, "retry": QUICK, "generation": self.generation} | settings
        self.tables = self.cleanup.enter_context(RemoteTables(PLAN.tables(), self.addresses, **given))
        return self

    def moment(self):
        """What a saver saves besides the tables."""
        return dict(
            step=self.step, dense={"weight": self.dense.clone()}, stream={"0": self.step}, generation=1, epoch=1
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cleanup.close()

    def _start(self):
        return self.cleanup.enter_context(ParameterServer(secret=SECRET))


def content(tables):
    """All rows with their optimizer state and times, all counters, and the newest times, of local tables."""
    found = {}
    for name, table in tables.tables.items():
        parts = [table.native.read_rows(number) for number in range(native.NUM_SUB_TABLES)]
        ids, seen, rows = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.argsort(ids)
        counts = [] if table.admission is None else [table.admission.native_filter.get(id_) for id_ in range(200)]
        newest = table.native.max_time, table.native.max_step
        found[name] = (ids[order].tolist(), seen[order].tolist(), rows[order].tobytes(), counts, newest)
    return found


def saved_content(path):
    """The content of a snapshot or delta, restored by one process, and its dense tensors."""
    tables = make_tables(PLAN)
    snapshot = load_snapshot(path, plan=PLAN, tables=tables)
    return content(tables), {name: tensor.tolist() for name, tensor in snapshot.dense.items()}
