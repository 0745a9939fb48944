"""Another number of trainers goes on with a data service: every record goes to exactly one of them."""

import itertools
import json
import random

import pytest

from monolith.data.parts import PartSource
from monolith.data_service import DataWorker, DataWorkerConfig, Dispatcher, DispatcherConfig, ServiceSource
from monolith.data_service.dispatch.split_ledger import SplitLedger
from monolith.data_service.hand_over import stand_of
from monolith.data_service.holding import Holding, SplitPosition
from monolith.errors import FencedError, RemoteError
from tests.data_service.numbered_input import INPUT, NUM_RECORDS, seqs

NUM_SPLITS = 6


@pytest.fixture
def service(tmp_path):
    config = DispatcherConfig(input=INPUT, num_splits=NUM_SPLITS, state_path=str(tmp_path), address="127.0.0.1:0")
    with (
        Dispatcher(config) as dispatcher,
        DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, prefetch_batches=2)),
    ):
        yield dispatcher


def trainers(service, count, positions, **how):
    """Return so many trainers where these positions are; a restart goes through a file."""
    made = []
    for index, position in enumerate(json.loads(json.dumps(positions))):
        whole = ServiceSource(service.address, trainer="job", splits_in_flight=1, wait_for_others=False, **how)
        made.append(PartSource(whole, count, index))
        if position is not None:
            made[-1].restore(position)
    return made


def read(parts, num_batches, seen):
    """Let trainers read by turns; return their positions."""
    reading = [iter(part) for part in parts]
    for one in itertools.islice(itertools.cycle(reading), num_batches):
        if (batch := next(one, None)) is not None:
            seen += seqs(batch)
    return [part.state() for part in parts]


@pytest.mark.parametrize("shared", [False, True], ids=["parts", "shared"])
@pytest.mark.parametrize("counts", [(2, 3, 1, 6), (1, 4, 2, 3), (5, 1)], ids=str)
def test_every_record_goes_to_one_trainer_however_many_there_are(service, counts, shared):
    seen, positions, rng = [], [None] * counts[0], random.Random(str(counts))
    for count in counts:
        if len(positions) != count:
            positions = trainers(service, 1, [None], shares_splits=shared)[0].redivide(positions, count)
        parts = trainers(service, count, positions, shares_splits=shared)
        last = count == counts[-1]
        # The last ones are not stopped; nobody closes the others: their leases have not run out.
        positions = read(parts, 10_000 if last else rng.randint(1, 12), seen)
    assert sorted(seen) == list(range(NUM_RECORDS))


def test_a_job_that_goes_back_to_before_the_change_begins_it_again(service):
    before = []
    positions = read(trainers(service, 2, [None, None]), 7, before)
    again = trainers(service, 1, [None])[0].redivide(positions, 3)
    read(trainers(service, 3, again), 11, [])  # and then a parameter server is lost, before any snapshot
    after = []
    ends = read(trainers(service, 3, again), 5, after)
    once_more = trainers(service, 1, [None])[0].redivide(ends, 2)
    read(trainers(service, 2, once_more), 10_000, after)
    assert sorted(before + after) == list(range(NUM_RECORDS))


def test_a_change_right_after_a_change_forgets_nothing(service):
    seen = []
    positions = read(trainers(service, 2, [None, None]), 9, seen)
    for count in (3, 1, 4):
        positions = trainers(service, 1, [None])[0].redivide(positions, count)
    read(trainers(service, 4, positions), 10_000, seen)
    assert sorted(seen) == list(range(NUM_RECORDS))


def test_a_job_without_a_snapshot_begins_anew_whatever_others_had_read(service):
    read(trainers(service, 2, [None, None]), 9, [])
    parts = trainers(service, 3, [None] * 3)
    parts[0].begin_anew()
    seen = []
    read(parts, 10_000, seen)
    assert sorted(seen) == list(range(NUM_RECORDS))


def test_trainers_of_the_old_number_are_refused(service):
    old = trainers(service, 2, [None, None])
    reading = iter(old[1])
    next(reading)
    positions = read(old[:1], 1, [])
    trainers(service, 3, old[0].redivide([*positions, old[1].state()], 3))
    with pytest.raises(FencedError, match="trainer 'job/1of2'"):
        list(reading)


def test_more_trainers_than_splits_are_refused_unless_they_share(service):
    words = r"the data into 6 splits, and 7 workers need at least one each.*--enable-dynamic-sharding"
    with pytest.raises(ValueError, match=words):
        trainers(service, 1, [None])[0].redivide([None], 7)
    assert trainers(service, 1, [None], shares_splits=True)[0].redivide([None], 7) == [None] * 7


def test_a_service_that_feeds_another_job_too_is_refused_and_left_as_it_is(service):
    other = ServiceSource(service.address, trainer="jobber", splits_in_flight=1)
    next(iter(other))
    positions = read(trainers(service, 2, [None, None]), 3, [])
    parts = trainers(service, 3, [None] * 3)
    parts[0].begin_anew()  # does nothing
    assert other.state()["splits"]
    with pytest.raises(RemoteError, match="also feeds 'jobber', which are no trainers of 'job'"):
        parts[0].restore(parts[0].redivide(positions, 3)[0])


def test_rounds_that_trainers_are_in_are_kept_apart():
    at = SplitPosition({"row": 8}, 2)
    positions = [Holding(1, {0: at}, {2}).to_json(), Holding(0, {3: at}, set()).to_json(), None]
    stand = stand_of(positions, [[0, 2], [1, 3], [4]])
    assert stand[0] == Holding(0, {3: at}, {0, 2}).to_json()
    assert stand[1] == Holding(1, {0: at}, {2}).to_json()
    ledger = SplitLedger(5, lease_seconds=10.0)
    ledger.hand_over("job", ["job/0of1"], [Holding.from_json(one) for one in stand.values()])
    assert ledger.join("job/0of1", "1", Holding()) == (0, [])
    every = range(5)
    assert ledger.take("job/0of1", "1", 0, [], every).split == 1
    assert ledger.take("job/0of1", "1", 0, [1], every).position == at
    ledger.report("job/0of1", "1", Holding(0, {}, {1, 3, 4}))
    assert ledger.take("job/0of1", "1", 0, [1, 3, 4], every).what == "split"  # it had not taken split 4
