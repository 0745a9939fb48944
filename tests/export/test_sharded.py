"""A version that several servers serve together: its predictions are those of one process."""

import gc
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
import torch

from monolith.delta import DeltaReceiver, DeltaSender, DeltaSettings
from monolith.errors import CorruptFileError, RemoteError
from monolith.export import load_export
from monolith.export.dense_graph import dense_weights
from monolith.export.sharded.entry import TAKEN_BY_ENTRY, rows_on_replicas
from monolith.export.sharded.shard_model import load_newest_shard, load_shard
from monolith.parallel import RemoteTables
from monolith.parallel.replicas.replica_server import ReplicaServer
from monolith.parallel.replicas.replicated_tables import ReadConfig, ShardAwayError
from monolith.wire import SharedSecret
from tests.export.movie import eager, export, request, trained
from tests.patience import PATIENCE_SECONDS

NUM_SHARDS = 3


def serve(server, model):
    server.serve(
        model.tables,
        shard=model.shard,
        num_shards=model.num_shards,
        plan_hash=model.plan_hash,
        version=model.version,
    )


class Fleet:
    """Replicas of the shards of a version, in this process."""

    def __init__(self, path, num_replicas=2):
        self.path = path
        self.secret = SharedSecret.of_folder(path.parent.parent)
        self.models = [[load_shard(path, shard) for _ in range(num_replicas)] for shard in range(NUM_SHARDS)]
        self.servers = [[self.served(model) for model in replicas] for replicas in self.models]
        self.addresses = [[str(one.address) for one in replicas] for replicas in self.servers]

    def served(self, model, address="127.0.0.1:0"):
        server = ReplicaServer(address, secret=self.secret)
        serve(server, model)
        return server

    def entry(self, deadline_seconds=60.0, default_rows=True, is_live=False):
        config = ReadConfig(deadline_seconds=deadline_seconds, default_rows=default_rows)
        rows = rows_on_replicas(lambda shard: self.addresses[shard], secret=self.secret, config=config, is_live=is_live)
        return load_export(self.path, rows=rows)

    def close(self):
        for replicas in self.servers:
            for one in replicas:
                one.close()


@pytest.fixture
def path(tmp_path):
    return export(tmp_path / "base", 1, seed=3, num_shards=NUM_SHARDS)


@pytest.fixture
def fleet(path):
    made = Fleet(path)
    yield made
    made.close()


def predicted(model, seed=0):
    return model.predict(request(80, seed))["pred"]


def test_predictions_are_those_of_one_process(fleet, path):
    entry, alone = fleet.entry(), load_export(path)
    for seed in range(5):
        np.testing.assert_array_equal(predicted(entry, seed), predicted(alone, seed))
    np.testing.assert_allclose(predicted(entry), eager(*trained(3), request(80)), rtol=0, atol=1e-6)
    assert sum(len(one[0].tables["uid"]) for one in fleet.models) == 200, "each shard has rows of its own"
    assert entry.tables.counts.default_rows == [0] * NUM_SHARDS


def test_another_replica_answers_for_one_that_is_gone(fleet, path):
    entry, wanted = fleet.entry(), predicted(load_export(path))
    for shard in range(NUM_SHARDS):
        np.testing.assert_array_equal(predicted(entry), wanted)
        fleet.servers[shard][shard % 2].close()
    for _ in range(4):  # reads go to each replica in turn
        np.testing.assert_array_equal(predicted(entry), wanted)
    assert entry.tables.counts.default_rows == [0] * NUM_SHARDS


def test_many_threads_read_while_replicas_come_and_go(fleet, path):
    entry, wanted = fleet.entry(), predicted(load_export(path))
    done, wrong, reads = threading.Event(), [], []

    def read():
        while not done.is_set():
            found = predicted(entry)
            reads.append(1)
            if not np.array_equal(found, wanted):
                wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for turn in range(6):
            shard, replica = turn % NUM_SHARDS, turn % 2
            server, model = fleet.servers[shard][replica], fleet.models[shard][replica]
            server.close()
            seen = len(reads)
            while len(reads) < seen + 6 and not wrong:
                done.wait(0.001)
            fleet.servers[shard][replica] = fleet.served(model, str(server.address))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong and entry.tables.counts.default_rows == [0] * NUM_SHARDS


def test_rows_of_a_shard_that_is_away_read_as_zeros_and_are_counted(fleet, path):
    entry, columns = fleet.entry(deadline_seconds=0.5), request(80)
    for one in fleet.servers[1]:
        one.close()
    alone = load_export(path)
    ids = {table: fleet.models[1][0].tables[table] for table in ("uid", "mov")}
    for table, rows in ids.items():
        alone.erase_rows(table, torch.cat([one for one, _ in rows.items()]))
    before = entry.tables.counts.default_rows[1]
    np.testing.assert_array_equal(predicted(entry), alone.predict(columns)["pred"])
    away = sum(int(ids[table].contains(torch.from_numpy(columns[table])).sum()) for table in ids)
    assert entry.tables.counts.default_rows[1] - before == away > 0
    assert entry.tables.counts.default_rows[0] == entry.tables.counts.default_rows[2] == 0
    assert entry.shards_away == (1,)
    # It comes back at another address.
    back = fleet.served(fleet.models[1][0])
    fleet.addresses[1] = [str(back.address)]
    fleet.servers[1] = [back]
    entry.tables.refresh()
    np.testing.assert_array_equal(predicted(entry), predicted(load_export(path)))
    assert entry.shards_away == ()


def test_rows_can_be_read_but_not_changed(fleet):
    model = fleet.models[0][0]
    configs = {name: table.config for name, table in model.tables.tables.items()}
    addresses = [one[0] for one in fleet.addresses]
    with RemoteTables(configs, addresses, plan_hash=model.plan_hash, secret=fleet.secret) as tables:
        ids = torch.arange(200)
        before = tables.lookup({"uid": ids})["uid"]
        changes = [
            lambda: tables.assign({"uid": (ids, before + 1)}),
            lambda: tables.assign_add({"uid": (ids, before + 1)}),
            lambda: tables.apply_gradients({"uid": (ids, before + 1)}),
            lambda: tables.erase({"uid": ids}),
            lambda: tables["uid"].evict(1 << 40),
        ]
        for change in changes:
            with pytest.raises(RemoteError, match="its rows can be read, not changed"):
                change()
        assert torch.equal(tables.lookup({"uid": ids})["uid"], before)


def test_a_newer_version_takes_the_place_of_the_one_before(fleet, path):
    entry = fleet.entry()
    predicted(entry)
    newer = export(path.parent.parent, 2, seed=4, num_shards=NUM_SHARDS)
    fleet.path = newer
    with pytest.raises(ShardAwayError, match=r"shard 0 of 3 .*version 2 is not loaded yet, the newest here is 1"):
        fleet.entry()
    replace_versions(fleet, path.parent.parent)
    before, after = predicted(load_export(path)), predicted(load_export(newer))
    assert not np.array_equal(before, after)
    entry_of_newer = fleet.entry()
    # Both entries at once: neither mixes its dense weights with rows of the other version.
    for _ in range(3):
        np.testing.assert_array_equal(predicted(entry), before)
        np.testing.assert_array_equal(predicted(entry_of_newer), after)
    assert entry.tables.counts.default_rows == entry_of_newer.tables.counts.default_rows == [0] * NUM_SHARDS


def replace_versions(fleet, base):
    for shard, replicas in enumerate(fleet.servers):
        model = load_newest_shard(base, shard)
        for one in replicas:
            serve(one, model)


def test_rows_of_an_earlier_version_stay_until_their_last_reader_has_gone(fleet, path):
    entry = fleet.entry()
    predicted(entry)
    export(path.parent.parent, 2, seed=4, num_shards=NUM_SHARDS)
    replace_versions(fleet, path.parent.parent)
    server = fleet.servers[0][0]
    server.release(keep_seconds=0.0)
    assert server.num_held == 2, "an entry is connected to the rows of version 1"
    del entry
    gc.collect()
    give_up = time.monotonic() + PATIENCE_SECONDS
    while server.num_held == 2 and time.monotonic() < give_up:
        server.release(keep_seconds=0.0)
        time.sleep(0.01)
    assert server.num_held == 1
    # A replica that has newer rows alone answers an entry of before: the plan is the same.
    fleet.addresses[0] = [str(server.address)]
    entry = fleet.entry()
    predicted(entry)
    assert entry.shards_away == ()


def test_the_same_rows_can_have_two_version_numbers(fleet):
    entry, server, model = fleet.entry(), fleet.servers[0][0], fleet.models[0][0]
    wanted = predicted(entry)
    serve(server, model.as_version(5))
    assert server.num_held == 1
    np.testing.assert_array_equal(predicted(entry), wanted)
    np.testing.assert_array_equal(predicted(fleet.entry()), wanted)


def test_an_entry_that_follows_a_trainer_reads_the_newest_rows(fleet, path):
    entry, newer = fleet.entry(is_live=True), export(path.parent.parent, 2, seed=4, num_shards=NUM_SHARDS)
    np.testing.assert_array_equal(predicted(entry), predicted(load_export(path)))
    replace_versions(fleet, path.parent.parent)
    after = load_export(newer)
    entry.swap_dense(after.dense_weights)  # as a delta brings them
    np.testing.assert_array_equal(predicted(entry), predicted(after))
    assert entry.tables.counts.default_rows == [0] * NUM_SHARDS


def test_an_entry_that_must_have_all_rows_says_so(fleet):
    entry = fleet.entry(deadline_seconds=0.5, default_rows=False)
    for one in fleet.servers[2]:
        one.close()
    with pytest.raises(ShardAwayError, match=r"shards \[2\] did not answer within 0.5 s"):
        predicted(entry)
    assert entry.shards_away == (2,)


def test_tables_of_two_plans_are_served_until_the_next_ones_come(fleet):
    model, server = fleet.models[0][0], fleet.servers[0][0]
    where = {"shard": 0, "num_shards": NUM_SHARDS}
    configs = {name: table.config for name, table in model.tables.tables.items()}
    addresses = [one[0] for one in fleet.addresses]

    def reads(plan_hash):
        with RemoteTables(configs, addresses, plan_hash=plan_hash, secret=fleet.secret) as tables:
            return tables.num_rows()

    assert reads(model.plan_hash)["uid"] == 200
    for plan_hash in (7, 8):
        for shard, replicas in enumerate(fleet.servers):
            tables = fleet.models[shard][0].tables
            replicas[0].serve(tables, shard=shard, num_shards=NUM_SHARDS, plan_hash=plan_hash)
        assert reads(plan_hash)["uid"] == 200
        if plan_hash == 7:
            assert reads(model.plan_hash)["uid"] == 200
    with pytest.raises(Exception, match="another lookup plan"):
        reads(model.plan_hash)
    server.serve(model.tables, plan_hash=model.plan_hash, **where)


def test_deltas_bring_rows_to_every_replica_and_dense_weights_to_the_entry(fleet, path):
    entry, alone = fleet.entry(), load_export(path)
    model, plan, tables = trained(3)
    secret = fleet.secret
    with ExitStack() as stack:
        targets = [(alone, {}), (entry, {"takes": TAKEN_BY_ENTRY})]
        targets += [(one, {"takes": one.takes}) for replicas in fleet.models for one in replicas]
        receivers = [
            DeltaReceiver(one, plan_hash=plan.hash, generation=1, parts=one.parts, **options)
            for one, options in targets
        ]
        listeners = [stack.enter_context(one.listen("127.0.0.1:0", secret=secret)) for one in receivers]
        addresses = [one.address for one in listeners]
        weights = {name: torch.from_numpy(value) for name, value in dense_weights(model).items()}
        version = 1
        sender = stack.enter_context(
            DeltaSender(
                tables,
                plan_hash=plan.hash,
                generation=2,
                targets=addresses,
                dense_weights=lambda: (version, weights),
                settings=DeltaSettings(secret=secret, max_message_bytes=3000),
            )
        )
        generator = torch.Generator().manual_seed(0)
        for turn in range(5):
            for table in tables.tables.values():
                ids = torch.randint(0, 300, (40,), generator=generator).unique()
                table.assign(ids, torch.randn(len(ids), table.dim, generator=generator))
                table.erase(torch.randint(0, 300, (20,), generator=generator))
            version += 1
            weights = {name: value + 0.01 if value.is_floating_point() else value for name, value in weights.items()}
            assert not sender.push_once().failures
            wanted = alone.predict(request(300, turn, num_ids=320))["pred"]
            np.testing.assert_array_equal(entry.predict(request(300, turn, num_ids=320))["pred"], wanted)
        for receiver in receivers:
            assert receiver.freshness.complete
    for table in ("uid", "mov"):
        for replica in range(2):
            assert sum(len(one[replica].tables[table]) for one in fleet.models) == len(tables[table])
    np.testing.assert_allclose(entry.dense_weights["tower.0.weight"], weights["tower.0.weight"].numpy())


def test_a_shard_is_refused_where_there_is_none(path, tmp_path):
    with pytest.raises(ValueError, match=r"there is no shard 3 of 3"):
        load_shard(path, 3)
    alone = export(tmp_path / "alone", 1)
    with pytest.raises(ValueError, match="has no shards; serve it with `monolith serve`"):
        load_shard(alone, 0)
    with pytest.raises(CorruptFileError, match="has no shards; serve it without --shards"):
        load_export(alone, rows=rows_on_replicas(lambda shard: []))


def test_a_damaged_file_harms_its_own_shard_alone(path):
    file = path.parent.parent / "ps_1" / "1" / "tables" / "uid-00001-of-00003"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CorruptFileError, match="uid-00001-of-00003 is damaged"):
        load_shard(path, 1)
    assert len(load_shard(path, 2).tables["uid"]) > 0
