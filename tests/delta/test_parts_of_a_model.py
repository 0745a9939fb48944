"""Several senders of one model: each brings its part, and none may be missing."""

from contextlib import ExitStack

import numpy as np
import pytest
import torch

from monolith.delta import DeltaPart, DeltaPosition, DeltaReceiver, DeltaSender
from monolith.delta.messages import DeltaContent, DeltaType
from monolith.embedding.hash_shards import shards_of_ids
from monolith.errors import CorruptFrameError, FencedError, RemoteError
from monolith.wire import Message
from tests.delta.table_target import TableTarget, content, training_tables

PLAN, IDS = 1, torch.arange(60)


@pytest.fixture
def target():
    return TableTarget()


class Shards:
    """The senders of a job with n parameter servers; each has the rows of its own ids."""

    def __init__(self, address, num_shards, generation):
        self.generation, self.num_shards = generation, num_shards
        self.weights = (1, {"w": torch.tensor([1.0, 2.0])})
        self.tables = [training_tables() for _ in range(num_shards)]
        common = {"plan_hash": PLAN, "generation": generation, "targets": [address]}
        self.rows = [
            DeltaSender(tables, part=DeltaPart(shard, num_shards), **common) for shard, tables in enumerate(self.tables)
        ]
        self.dense = DeltaSender(None, part=DeltaPart(None, num_shards), dense_weights=lambda: self.weights, **common)

    def assign(self, ids, value):
        for shard, tables in enumerate(self.tables):
            own = ids[shards_of_ids(ids, self.num_shards) == shard]
            tables["mov"].assign(own, torch.full((len(own), 3), float(value)))

    def push(self, watermark=None):
        sent = [sender.links[0].push() for sender in self.rows]
        self.dense.links[0].push(watermark=watermark or {}, after=[one.position for one in sent])
        return sent

    def ids(self):
        return sorted(int(id_) for tables in self.tables for ids, _ in tables["mov"].items() for id_ in ids)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for sender in (*self.rows, self.dense):
            sender.close()


@pytest.fixture
def serving(target):
    """A receiver that comes from an export of one process, and what makes senders to it."""
    receiver = DeltaReceiver(target, plan_hash=PLAN, generation=1, sequence=5)
    with ExitStack() as cleanup:
        server = cleanup.enter_context(receiver.listen("127.0.0.1:0", insecure=True))
        yield receiver, lambda num, generation: cleanup.enter_context(Shards(server.address, num, generation))


def served(target):
    return {id_: np.frombuffer(row, np.float32)[0] for id_, row in content(target.tables)["mov"].items()}


def test_rows_of_all_shards_and_the_weights_arrive_and_a_missing_one_is_known(serving, target):
    receiver, shards = serving
    target.tables["mov"].assign(torch.tensor([999]), torch.ones(1, 3))  # of an abandoned generation
    job = shards(2, 2)
    job.assign(IDS, 1)
    job.rows[0].links[0].push()
    assert not receiver.freshness.complete
    assert receiver.freshness.missing == (DeltaPart(1, 2), DeltaPart(None, 2))
    with pytest.raises(RemoteError, match="the rows of shard 1 of 2 must be at .* missing"):
        job.dense.links[0].push(watermark={"event_seq": 7}, after=[DeltaPosition(2, 0), DeltaPosition(2, 0)])
    assert receiver.freshness.watermark == {}
    assert all(one.full is (shard == 1) for shard, one in enumerate(job.push({"event_seq": 7})))
    assert receiver.freshness.complete and not receiver.freshness.missing
    assert receiver.freshness.watermark == {"event_seq": 7}
    assert served(target) == dict.fromkeys(IDS.tolist(), 1.0)
    assert target.dense_weights["w"].tolist() == [1, 2]


def test_changes_and_tombstones_of_each_shard(serving, target):
    _, shards = serving
    job = shards(3, 2)
    job.assign(IDS, 1)
    job.push()
    job.assign(IDS[:20], 2)
    for tables in job.tables:
        tables["mov"].erase(IDS[50:])
    sent = job.push()
    assert not any(one.full for one in sent)
    assert sum(one.num_rows for one in sent) == 20 and sum(one.num_erased for one in sent) == 10
    assert served(target) == {**dict.fromkeys(range(20), 2.0), **dict.fromkeys(range(20, 50), 1.0)}


@pytest.mark.parametrize("num_shards", [2, 3])
def test_a_job_that_goes_back_takes_serving_back_with_it(serving, target, num_shards):
    receiver, shards = serving
    job = shards(2, 2)
    job.assign(IDS, 1)
    job.push()
    back = shards(num_shards, 3)  # it may come back with another number of servers
    back.assign(IDS[:30], 5)
    back.rows[0].links[0].push()
    with pytest.raises(FencedError):
        job.rows[1].links[0].push()
    assert not receiver.freshness.complete
    back.push()
    assert receiver.freshness.complete
    assert served(target) == dict.fromkeys(range(30), 5.0)


def test_each_sender_says_for_itself_whether_an_export_holds_more(serving):
    """A sender counts from the time at which it began: one that began later is ahead, whatever it has sent."""
    receiver, shards = serving
    job = shards(2, 2)
    job.push()
    senders = {part: sender for part, sender in zip(DeltaPart(None, 2).family(), [*job.rows, job.dense], strict=True)}
    sent = {part: sender.sequence for part, sender in senders.items()}
    export = {part: sender.begin_export() for part, sender in senders.items()}
    assert min(sent.values()) < max(sent.values()), "the numbers of the senders differ"
    assert receiver.has(2, sent) and not receiver.has(1, sent)
    assert not receiver.has(2, export)
    for link in (job.rows[0].links[0], job.dense.links[0]):
        link.push()
        assert not receiver.has(2, export), "shard 1 has not sent since"
    job.rows[1].links[0].push()
    assert receiver.has(2, export)
    assert not receiver.has(2, {DeltaPart(None, 0): 0}), "an export of one sender"


@pytest.mark.parametrize("since_export", [False, True])
def test_a_push_that_an_export_overtakes_does_not_count_as_all_that_it_holds(serving, target, since_export):
    """An export begins, with a step before it, when a push has taken its changes and not got its number yet."""
    receiver, shards = serving
    job = shards(1, 2)
    job.assign(IDS, 1)
    job.push()
    if since_export:
        loaded = {DeltaPart(0, 1): job.rows[0].begin_export(), DeltaPart(None, 1): job.dense.begin_export()}
        receiver.adopt(target, plan_hash=PLAN, generation=2, parts=loaded)
    link, export = job.rows[0].links[0], {}

    def overtakes(content, *, always):
        if not export:
            job.assign(IDS[:5], 2)
            export.update({DeltaPart(0, 1): job.rows[0].begin_export(), DeltaPart(None, 1): job.dense.begin_export()})
        return 0, content

    link._with_dense = overtakes
    job.assign(IDS[5:9], 3)
    link.push()
    job.dense.links[0].push()
    assert 2.0 not in served(target).values() and 3.0 in served(target).values()
    assert not receiver.has(2, export)
    job.push()
    assert receiver.has(2, export) and served(target)[0] == 2.0


def test_a_server_from_an_export_gets_what_changed_since(serving, target):
    receiver, shards = serving
    job = shards(2, 2)
    job.assign(IDS, 1)
    parts = {DeltaPart(shard, 2): sender.sequence for shard, sender in enumerate(job.rows)}
    target.tables["mov"].assign(IDS, torch.ones(60, 3))
    receiver.adopt(target, plan_hash=PLAN, generation=2, parts={**parts, DeltaPart(None, 2): job.dense.sequence})
    assert receiver.freshness.complete and receiver.freshness.applied_at_seconds is None
    job.assign(IDS[:5], 3)
    assert not any(one.full for one in job.push())
    assert receiver.freshness.applied_at_seconds is not None
    assert served(target) == {**dict.fromkeys(IDS.tolist(), 1.0), **dict.fromkeys(range(5), 3.0)}


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (DeltaPart(0, 2), DeltaContent({"mov": (np.arange(9), np.ones((9, 3), np.float32))})),
        (DeltaPart(0, 2), DeltaContent(erased={"mov": np.arange(9)})),
        (DeltaPart(0, 2), DeltaContent(dense={"w": np.ones(2, np.float32)})),
        (DeltaPart(None, 2), DeltaContent({"mov": (np.arange(1), np.ones((1, 3), np.float32))})),
    ],
)
def test_what_belongs_to_another_sender_is_refused_whole(target, part, what):
    sequences = dict.fromkeys(part.family(), 5)
    receiver = DeltaReceiver(target, plan_hash=PLAN, generation=1, parts=sequences)
    meta = {"bases": [[1, 5]], "watermark": {}, **part.to_meta()}
    message = Message(type=DeltaType.DELTA, generation=1, sequence=6, plan_hash=PLAN, meta=meta, arrays=what.arrays())
    with pytest.raises(CorruptFrameError, match="is not of|sent dense weights"):
        receiver.handle(message)
    assert not target.trail
