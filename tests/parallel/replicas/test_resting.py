"""A replica that fails is asked after the others for a while, and longer each time it fails again."""

import pytest

from monolith.parallel.messages import Hello, tables_of
from monolith.parallel.replicas.shard_replicas import Replica, ShardReplicas
from monolith.wire import Address
from tests.parallel.conftest import CONFIGS, PLAN_HASH

HELLO = Hello(plan_hash=PLAN_HASH, shard=0, num_shards=1, tables=tables_of(CONFIGS))
NOBODY_CONNECTS = {"secret": None, "tls": None, "connect_seconds": 1.0}
A_MOMENT = 0.001


@pytest.fixture
def replica():
    return Replica(Address.parse("127.0.0.1:1"), HELLO, **NOBODY_CONNECTS)


def fail_after_its_rest(replica: Replica) -> float:
    """Let it fail when its last rest has long been over; return when it failed."""
    replica.failed_at -= 3600
    replica.fail(replica.take())
    return replica.failed_at


def test_each_rest_is_twice_as_long_as_the_one_before_up_to_ten_seconds(replica):
    for seconds in (1, 2, 4, 8, 10, 10):
        failed_at = fail_after_its_rest(replica)
        assert replica.is_resting(failed_at + seconds - A_MOMENT)
        assert not replica.is_resting(failed_at + seconds + A_MOMENT)


def test_reads_that_fail_together_count_once(replica):
    fail_after_its_rest(replica)
    for _ in range(5):
        replica.fail(replica.take())
    assert not replica.is_resting(replica.failed_at + 1 + A_MOMENT)


def test_an_answer_ends_the_rest_and_the_next_one_is_short_again(replica):
    for _ in range(4):
        failed_at = fail_after_its_rest(replica)
    replica.give_back(replica.take())
    assert not replica.is_resting(failed_at)
    failed_at = fail_after_its_rest(replica)
    assert not replica.is_resting(failed_at + 1 + A_MOMENT)


def test_others_are_asked_before_those_that_rest_or_are_late():
    shard = ShardReplicas(HELLO, **NOBODY_CONNECTS)
    shard.replace([f"127.0.0.1:{port}" for port in (1, 2, 3)])
    resting, late, well = (shard.next(()) for _ in range(3))
    resting.fail(resting.take())
    late.owe()
    assert {shard.next(()) for _ in range(6)} == {well}
    assert shard.next_well({well}) is None
    assert shard.next({well}) is late, "it may answer soon; the other has failed"
    assert shard.next({well, late}) is resting
    late.pay()
    assert {shard.next(()) for _ in range(6)} == {well, late}
