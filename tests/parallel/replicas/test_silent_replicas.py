"""Replicas that take connections and say nothing, as stopped processes do, cost a read little and no rows."""

import threading
from contextlib import ExitStack

import pytest
import torch

from monolith.embedding import MultiTable
from monolith.embedding.hash_shards import shards_of_ids
from monolith.parallel.replicas.replica_server import ReplicaServer
from monolith.parallel.replicas.replicated_tables import ReadConfig, ReplicatedTables, ShardAwayError
from tests.parallel.conftest import CONFIGS, PLAN_HASH
from tests.parallel.replicas.pausable import Pausable
from tests.patience import PATIENCE_SECONDS
from tests.serving.shards.fleet import until

IDS = torch.arange(300)
ROWS = torch.arange(900.0).reshape(300, 3)


class Replicas:
    """Servers of two shards, each behind a way that can be closed."""

    def __init__(self, stack: ExitStack, tls=None) -> None:
        self._stack = stack
        self._tls = tls
        self.found: list[list[str]] = [[], []]

    def add(self, shard: int, *, paused: bool = False) -> Pausable:
        tables = MultiTable(CONFIGS)
        mine = shards_of_ids(IDS, 2) == shard
        tables.assign({"item": (IDS[mine], ROWS[mine])})
        # Without the secret: those who know it notice that somebody passes on what they say.
        proof = {"insecure": True} if self._tls is None else {"tls": self._tls["server"]}
        server = self._stack.enter_context(ReplicaServer(**proof))
        server.serve(tables, shard=shard, num_shards=2, plan_hash=PLAN_HASH)
        way = Pausable(server.address)
        self._stack.callback(way.close)
        if paused:
            way.pause()
        self.found[shard].append(way.address)
        return way

    def tables(self, deadline_seconds: float = PATIENCE_SECONDS, **config) -> ReplicatedTables:
        tls = None if self._tls is None else self._tls["client"]
        given = ReadConfig(deadline_seconds=deadline_seconds, **config)
        made = ReplicatedTables(
            CONFIGS, 2, lambda shard: list(self.found[shard]), plan_hash=PLAN_HASH, config=given, tls=tls
        )
        return self._stack.enter_context(made)


@pytest.fixture
def replicas(cleanup):
    return Replicas(cleanup)


def read(tables: ReplicatedTables) -> torch.Tensor:
    return tables.plan(IDS, [len(IDS), 0]).lookup().reshape(-1, 3)


def test_a_silent_replica_does_not_keep_other_shards_from_their_rows(replicas):
    silent, _ = replicas.add(0, paused=True), replicas.add(0)
    well = replicas.add(1)
    # So long that nobody gives up on the silent one before the test does.
    tables = replicas.tables(deadline_seconds=4 * PATIENCE_SECONDS, hedge_seconds=0)
    found = []
    reading = threading.Thread(target=lambda: found.append(read(tables)))
    reading.start()
    until(lambda: silent.num_connections and well.num_chunks, "shard 1 is asked while shard 0 is silent")
    silent.close()  # lost, not silent: the other replica is asked
    reading.join()
    assert torch.equal(found[0], ROWS)
    assert tables.counts.default_rows == [0, 0]


def test_of_two_shards_with_a_silent_replica_each_all_rows_come(replicas):
    replicas.add(0, paused=True), replicas.add(0)
    replicas.add(1), replicas.add(1, paused=True)
    tables = replicas.tables(hedge_seconds=0.01)
    for _ in range(4):
        assert torch.equal(read(tables), ROWS)
    assert tables.counts.default_rows == [0, 0]


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_replica_that_stops_gets_a_rival_and_is_asked_again_once_it_has_answered(cleanup, certificates, is_encrypted):
    replicas = Replicas(cleanup, certificates if is_encrypted else None)
    stopped, _, _ = replicas.add(0), replicas.add(0), replicas.add(1)
    tables = replicas.tables()
    for _ in range(20):
        assert torch.equal(read(tables), ROWS)
    before = tables.counts.hedged_reads[0]
    stopped.pause()
    for _ in range(2):  # each replica in turn: one of these asks the one that stopped
        assert torch.equal(read(tables), ROWS)
    hedged = tables.counts.hedged_reads[0]
    assert hedged > before
    for _ in range(10):
        assert torch.equal(read(tables), ROWS)
    assert tables.counts.hedged_reads[0] == hedged, "a replica that owes an answer is not asked"
    num_connections, num_chunks = stopped.num_connections, stopped.num_chunks
    stopped.go_on()
    # Two pieces are the late question and its answer; more are further ones.
    until(lambda: torch.equal(read(tables), ROWS) and stopped.num_chunks > num_chunks + 4, "it is asked again")
    assert stopped.num_connections == num_connections, "the late answer was taken: the connection is as good as before"
    assert tables.counts.default_rows == [0, 0]


def test_a_shard_gets_one_rival_for_a_read_and_no_more(replicas):
    for _ in range(4):
        replicas.add(0, paused=True)
    replicas.add(1)
    tables = replicas.tables(deadline_seconds=1.0, hedge_seconds=0.01)
    read(tables)
    assert tables.shards_away in ((0,), (0, 1)), "shard 1 may be slow too; shard 0 is silent"
    assert tables.counts.hedged_reads[0] == 1


def test_rivals_are_few_when_every_replica_is_slow(replicas):
    for _ in range(2):
        replicas.add(0), replicas.add(1)
    tables = replicas.tables(hedge_seconds=1e-9)  # before anybody can answer
    for _ in range(100):
        assert torch.equal(read(tables), ROWS)
    num_requests = 2 * 100
    assert 10 <= sum(tables.counts.hedged_reads) <= 10 + num_requests // 10 + 1


def test_where_the_only_known_replica_is_silent_others_are_looked_for(replicas):
    replicas.add(0, paused=True), replicas.add(1)
    tables = replicas.tables(hedge_seconds=0.01, refresh_seconds=PATIENCE_SECONDS)
    replicas.add(0)  # it came after the replicas were looked for
    assert torch.equal(read(tables), ROWS)


def test_a_shard_whose_replicas_are_all_silent_keeps_a_version_from_serving(replicas):
    replicas.add(0), replicas.add(1, paused=True)
    with pytest.raises(ShardAwayError, match="no replica of shard 1 of 2 answers"):
        replicas.tables(deadline_seconds=1.0).require_replicas()


def test_a_silent_replica_does_not_keep_a_version_from_serving(replicas):
    replicas.add(0, paused=True), replicas.add(0), replicas.add(1)
    replicas.tables().require_replicas()
