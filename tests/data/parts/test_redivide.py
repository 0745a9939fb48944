"""Another number of workers goes on where some workers stood: every event exactly once, whatever the source."""

import itertools
import json

import numpy as np
import pytest
import torch

from monolith.data import EventLogSource, EventLogWriter, Schema, TFRecordWriter, arrays, csv, iterable, tfrecord
from monolith.data.parts import UNITS_KEY, PartSource, redivide
from monolith.data.parts.redivide import _num_pieces

NUM_EVENTS = 203
SIZE = 4


def of_arrays(folder):
    return arrays({"uid": torch.arange(NUM_EVENTS)}, batch_size=SIZE)


def of_items(folder):
    return iterable(lambda: ({"uid": one} for one in range(NUM_EVENTS)), batch_size=SIZE, schema=Schema.of(uid="int64"))


def of_log(folder):
    if not (path := folder / "log").exists():
        with EventLogWriter(path, Schema.of(uid="int64")) as writer:
            writer.append({"uid": np.arange(NUM_EVENTS)})
    return EventLogSource(path, batch_size=SIZE)


def _csv(folder, num_files):
    for index, ids in enumerate(np.array_split(np.arange(NUM_EVENTS), num_files)):
        (folder / f"{num_files}-{index}.csv").write_text("\n".join(["uid", *map(str, ids)]) + "\n")
    return csv(str(folder / f"{num_files}-*.csv"), batch_size=SIZE, uid="int64")


def of_few_files(folder):
    return _csv(folder, 2)


def of_many_files(folder):
    return _csv(folder, 30)


def _records(folder, num_files):
    for index, ids in enumerate(np.array_split(np.arange(NUM_EVENTS), num_files)):
        path = folder / f"{num_files}-{index:02}.tfrecord"
        if not path.exists():
            with TFRecordWriter(str(path)) as writer:
                writer.write_all([json.dumps({"uid": int(one)}).encode() for one in ids])
    return tfrecord(str(folder / f"{num_files}-*.tfrecord"), batch_size=SIZE, cycle_length=3).parse("json", uid="int64")


def of_few_records(folder):
    return _records(folder, 1)


def of_many_records(folder):
    return _records(folder, 30)


def rebatched(folder):
    return of_arrays(folder).filter(lambda batch: batch.columns["uid"] != 50).rebatch(7)


def shuffled(folder):
    return of_arrays(folder).shuffle(window=20, batch_size=5).prefetch(2)


def repeated(folder):
    return of_few_files(folder).repeat(2).take(90)


SOURCES = [
    of_arrays,
    of_items,
    of_log,
    of_few_files,
    of_many_files,
    of_few_records,
    of_many_records,
    rebatched,
    shuffled,
    repeated,
]


def ids_of(batch):
    return batch.columns["uid"].tolist()


def train(whole, positions, num_batches):
    """Let every worker read a few batches, each another number; return their events, keys and new positions."""
    found, keys, after = [], [], []
    for index, position in enumerate(positions):
        part = PartSource(whole(), len(positions), index)
        if position is not None:
            part.restore(json.loads(json.dumps(position)))
        read = 0
        for batch in itertools.islice(part, num_batches and num_batches + 2 * index):
            read += 1
            found += ids_of(batch)
            keys.append((batch.partition, batch.first, batch.last))
        after.append(part.state() if read or position is not None else None)
    return found, keys, after


@pytest.mark.parametrize("make", SOURCES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("counts", [(2, 3, 1, 2), (1, 3, 2), (3, 1, 4, 3)], ids=str)
def test_every_event_comes_once_however_often_the_number_changes(tmp_path, make, counts):
    def whole():
        return make(tmp_path)

    events = sorted(one for batch in whole() for one in ids_of(batch))
    found, keys, positions = [], [], [None] * counts[0]
    for step, count in enumerate(counts):
        positions = redivide(whole(), positions, count)
        some, named, positions = train(whole, positions, None if step == len(counts) - 1 else 3)
        found += some
        keys += named
    assert sorted(found) == events
    # Parameter servers know batches by partition and end: within a partition they must come in order, and once.
    ends = {}
    for partition, first, last in keys:
        assert ends.get(partition, 0) <= first < last
        ends[partition] = last


def test_the_same_number_changes_nothing(tmp_path):
    positions = [{"row": 8}, None]
    assert redivide(of_arrays(tmp_path), positions, 2) == positions


def test_going_back_to_the_first_number_gives_the_ordinary_parts_back(tmp_path):
    positions = [{"row": 8}, {"row": 16}]
    for count in (1, 2):
        positions = redivide(of_arrays(tmp_path), positions, count)
    assert positions == [{"row": 8}, {"row": 16}]


def test_all_workers_have_work(tmp_path):
    positions = [None, None]
    for count in (3, 7, 5, 11, 2):
        positions = redivide(of_arrays(tmp_path), positions, count)
        shares = [len(one[UNITS_KEY]) for one in positions]
        assert min(shares) > 0 and max(shares) <= 1.3 * sum(shares) / count
    assert len(sum((one[UNITS_KEY] for one in positions), [])) < 300


def test_pieces_are_as_few_as_give_everybody_about_the_same():
    for units, workers in itertools.product(range(1, 30), range(1, 30)):
        pieces = units * _num_pieces(units, workers)
        assert pieces >= workers
        assert -(-pieces // workers) <= 1.1 * pieces / workers


def test_the_worker_that_is_behind_catches_up_first(tmp_path):
    """Else one that waits at the end of a log that grows would keep the old events waiting."""
    whole = of_log(tmp_path)
    ahead, behind = whole.shard(2, 0), whole.shard(2, 1)
    states = []
    for part, count in ((ahead, 20), (behind, 2)):
        for _ in itertools.islice(part, count):
            pass
        states.append(part.state())
    (position,) = redivide(of_log(tmp_path), states, 1)
    part = PartSource(of_log(tmp_path), 1, 0)
    position[UNITS_KEY][0]["last"], position[UNITS_KEY][1]["last"] = states[0]["0"], states[1]["0"]
    part.restore(position)
    firsts = [batch.first for batch in itertools.islice(part, 18)]
    assert firsts == sorted(firsts)
    assert {batch // SIZE % 2 for batch in firsts} == {1}


def test_what_has_one_position_only_is_refused_with_the_way_out():
    class Stream:
        fixed_parts = "its events come in another order each time"
        schema = Schema.of(uid="int64")

        def state(self):
            return {}

    with pytest.raises(ValueError, match="2 workers cannot be given out anew to 3: its events come.*num_workers=2"):
        redivide(arrays({"uid": [1]}).concatenate(Stream()).rebatch(2), [None, None], 3)


def test_a_position_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no position of a worker's part"):
        PartSource(of_arrays(tmp_path), 2, 0).restore({UNITS_KEY: [{"path": [[2, 0]]}]})
