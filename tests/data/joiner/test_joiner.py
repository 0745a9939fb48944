"""The joiner against a join written event by event, and its positions."""

import json
import random

import numpy as np
import pytest
import torch

from monolith.data import Batch, Schema, assert_resume_is_exact
from monolith.data.joiner import JoinConfig, Joiner
from monolith.data.joiner.keys import Keys
from monolith.tensors import Ragged
from tests.data.joiner.made_stream import SCHEMA, Event, Played, join_one_by_one, made_partition, rows_of

KEY = ("req_id", "item_id")


def made_stream(seed, counts=(300, 200, 250)):
    return {
        f"t:{p}": made_partition(seed * 10 + p, count, num_keys=6, disorder=4, partition=p)
        for p, count in enumerate(counts)
    }


def config(**options):
    wanted = {"key": KEY, "window_seconds": 30, "allowed_lateness_seconds": 5, "batch_seconds": 10, "num_partitions": 3}
    return JoinConfig(**{**wanted, **options})


class OneBatch:
    """A source of a single batch."""

    def __init__(self, schema, columns):
        self.schema, self._batches = schema, [Batch(columns, 0, len(columns["kind"]), "p")]

    def __iter__(self):
        while self._batches:
            yield self._batches.pop()

    def state(self):
        return {"left": len(self._batches)}


def event(time, kind=0, *, key=(1, 1), action=0, seq=0):
    return Event(key, time, kind, action, seq)


def run(events, **options):
    joiner = Joiner(Played({"p": events}, 3), config(num_partitions=1, at_end="flush", **options))
    return joiner, [row for batch in joiner for row in rows_of(batch)[2]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("flush", [True, False])
def test_the_join_is_that_of_an_event_by_event_program(seed, flush):
    partitions = made_stream(seed)
    positive = None if seed % 2 else (1, 2)
    joiner = Joiner(Played(partitions, 16), config(at_end="flush" if flush else "keep", positive_actions=positive))
    found = [rows_of(batch) for batch in joiner]
    expected, num_late, num_duplicates = join_one_by_one(
        partitions, window=30, lateness=5, step=10, flush=flush, positive=positive
    )
    assert found == expected
    assert (joiner.num_late, joiner.num_duplicates) == (num_late, num_duplicates)
    # The stream has what it should try.
    assert num_late > 5 and num_duplicates > 20 and (joiner.num_open == 0) == flush
    assert sum(len(row[2]) > 1 for *_, rows in found for row in rows) > 20


@pytest.mark.parametrize(("step", "window"), [(1, 7), (7, 30), (50, 20), (None, 33)])
def test_any_bucket_gives_the_same_join(step, window):
    partitions = made_stream(9)
    chosen = config(batch_seconds=step, window_seconds=window, at_end="flush")
    found = [rows_of(batch) for batch in Joiner(Played(partitions, 32), chosen)]
    expected, _, _ = join_one_by_one(partitions, window=window, lateness=5, step=step or 2, flush=True)
    assert found == expected


@pytest.mark.parametrize("seed", range(3))
def test_batches_do_not_depend_on_how_partitions_interleave(seed):
    partitions = made_stream(seed)
    order = [name for name, events in partitions.items() for _ in range(-(-len(events) // 16))]
    expected = [rows_of(batch) for batch in Joiner(Played(partitions, 16), config(at_end="flush"))]
    for _ in range(3):
        random.Random(seed).shuffle(order)
        joiner = Joiner(Played(partitions, 16, list(order)), config(at_end="flush"))
        assert [rows_of(batch) for batch in joiner] == expected


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"at_end": "flush"},
        {"negative_keep_rate": 0.5, "at_end": "flush"},
        {"window_seconds": 7, "batch_seconds": 1},
        {"num_partitions": None},
        {"num_partitions": 4, "max_skew_seconds": 20},
        {"max_skew_seconds": 0, "at_end": "flush"},
    ],
    ids=str,
)
def test_resume_is_exact(options):
    for seed in range(2):
        partitions = made_stream(seed, counts=(150, 120, 90))
        assert_resume_is_exact(lambda partitions=partitions: Joiner(Played(partitions, 16), config(**options)))


def test_resume_is_exact_in_a_shard_and_shards_have_names_of_their_own():
    partitions = made_stream(5, counts=(100, 100, 100, 100))
    whole = Joiner(Played(partitions, 16), config(num_partitions=4, at_end="flush"))
    assert_resume_is_exact(lambda: whole.shard(2, 1))
    parts = [list(whole.shard(2, index)) for index in range(2)]
    assert [{batch.partition for batch in part} for part in parts] == [{"joined-0-of-2"}, {"joined-1-of-2"}]

    def rows(batches):
        return sorted(str(row) for batch in batches for row in rows_of(batch)[2])

    assert rows(parts[0] + parts[1]) == rows(whole)


def test_counts_and_positions_survive_a_restart_and_the_position_stays_small():
    partitions = {"p": made_partition(1, 4000, num_keys=6, disorder=4)}

    def make():
        return Joiner(Played(partitions, 16), config(num_partitions=1, negative_keep_rate=0.5, at_end="flush"))

    straight = make()
    sizes = []
    for number, _ in enumerate(straight):
        sizes.append(len(json.dumps(straight.state())))
        if number == 60:
            kept = json.loads(json.dumps(straight.state()))
    counts = ("num_late", "num_duplicates", "num_dropped_negatives", "num_skipped")
    resumed = make()
    resumed.restore(kept)
    again_from = resumed.source.position["p"]
    list(resumed)
    assert [getattr(resumed, name) for name in counts] == [getattr(straight, name) for name in counts]
    assert max(sizes) < 400
    # Read again: two windows, the lateness, and what makes whole batches; about an event a second.
    newest = max(event.time for event in partitions["p"][:again_from])
    assert kept["emitted"] - newest < 2 * 30 + 60
    assert len(straight._checkpoints) < 30


def test_memory_is_bounded_by_the_window():
    joiner = Joiner(Played({"p": made_partition(3, 5000, num_keys=9, disorder=4)}, 50), config(num_partitions=1))
    most = max((joiner.num_open, len(joiner._windows._actions), len(joiner._windows._recent)) for _ in joiner)
    assert most[0] < 120 and len(joiner._windows._actions) <= 12 and len(joiner._windows._recent) <= 6


def test_the_ends_of_the_window_belong_to_it():
    events = [event(1000, action=0), event(1030, 1, action=1), event(1031, 1, action=2), event(999, 1, action=3)]
    _, rows = run(sorted(events, key=lambda e: e.time))
    assert rows == [(0, (1, 1), [1], 1.0)]
    _, rows = run([event(1000), event(1000, 1, action=5)])
    assert rows == [(0, (1, 1), [5], 1.0)]


def test_an_action_that_comes_before_its_impression_joins():
    _, rows = run([event(1003, 1, action=7), event(1000, seq=4), event(2000, key=(2, 2), seq=5)])
    assert rows == [(4, (1, 1), [7], 1.0), (5, (2, 2), [], 0.0)]


def test_late_events_are_dropped_and_counted():
    joiner, rows = run(
        [event(1000), event(1006, key=(2, 2), seq=1), event(1000, 1, action=1), event(1001, 1, action=2)]
    )
    assert joiner.num_late == 1 and [row[2] for row in rows] == [[2], []]


def test_of_duplicates_the_first_wins_and_each_hides_the_next():
    times = [1000, 1010, 1040, 1071]  # 1040 is within the window of 1010, itself a duplicate; 1071 is not of 1040
    joiner, rows = run([event(time, seq=n) for n, time in enumerate(times)])
    assert [row[0] for row in rows] == [0, 3] and joiner.num_duplicates == 2


def test_keys_of_one_hash_are_not_merged(monkeypatch):
    partitions = made_stream(2)
    expected, _, num_duplicates = join_one_by_one(partitions, window=30, lateness=5, step=10, flush=True)
    real = Keys.of.__func__

    def colliding(cls, batch, names):
        return Keys(real(cls, batch, names).hashes % np.uint64(3), real(cls, batch, names).columns)

    monkeypatch.setattr(Keys, "of", classmethod(colliding))
    joiner = Joiner(Played(partitions, 16), config(at_end="flush"))
    assert [rows_of(batch) for batch in joiner] == expected
    assert joiner.num_duplicates == num_duplicates


def test_keys_of_several_columns_differ_by_their_order():
    batch = Batch({"a": torch.tensor([1, 2, 1]), "b": torch.tensor([2, 1, 2])}, 0, 3)
    hashes = Keys.of(batch, ("a", "b")).hashes
    assert hashes[0] != hashes[1] and hashes[0] == hashes[2]


def test_keys_of_bytes_join_too():
    schema = Schema.of(req_id="bytes", req_time="int64", kind="int64", action="int64")
    texts = [b"a", b"", b"ab", b"a", b"", b"ab"]
    columns = {
        "req_id": Ragged.from_lists([list(text) for text in texts], dtype=torch.uint8),
        "req_time": torch.tensor([10, 11, 12, 13, 14, 15]),
        "kind": torch.tensor([0, 0, 0, 1, 1, 0]),
        "action": torch.tensor([0, 0, 0, 5, 6, 0]),
    }
    joiner = Joiner(OneBatch(schema, columns), JoinConfig(key=("req_id",), window_seconds=10, at_end="flush"))
    batches = list(joiner)
    found = [
        (bytes(key), actions)
        for batch in batches
        for key, actions in zip(batch.columns["req_id"].to_list(), batch.columns["actions"].to_list(), strict=True)
    ]
    assert found == [(b"a", [5]), (b"", [6]), (b"ab", [])] and joiner.num_duplicates == 1


def test_an_idle_partition_is_waited_for_unless_told_otherwise():
    busy = {"t:0": made_partition(1, 300, num_keys=6, disorder=4), "t:1": []}
    assert list(Joiner(Played(busy, 16), config(num_partitions=2))) == []
    given_up = Joiner(Played(busy, 16), config(num_partitions=2, max_skew_seconds=50))
    alone = Joiner(Played({"t:0": busy["t:0"]}, 16), config(num_partitions=1))
    found = [rows_of(batch) for batch in given_up]
    assert found and found == [rows_of(batch) for batch in alone]


def test_an_undeclared_partition_is_an_error():
    with pytest.raises(ValueError, match=r"more partitions than num_partitions=2: t:2 came after t:0, t:1"):
        list(Joiner(Played(made_stream(0), 16), config(num_partitions=2)))


@pytest.mark.parametrize("bad", [event(1000, 2), event(-1), event(1 << 40)])
def test_impossible_events_are_named_or_skipped(bad):
    with pytest.raises(ValueError, match=r"event 1 of batch p\[0, 2\).* on_error='skip'"):
        run([event(1000), bad])
    joiner, rows = run([event(1000), bad], on_error="skip")
    assert len(rows) == 1 and joiner.num_skipped == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": ()}, "key must name"),
        ({"window_seconds": 0}, "window_seconds must be positive, got 0"),
        ({"batch_seconds": 0}, "batch_seconds must be positive, got 0"),
        ({"allowed_lateness_seconds": -1}, "allowed_lateness_seconds must not be negative, got -1"),
        ({"negative_keep_rate": 0.0}, "negative_keep_rate must be above 0 and at most 1, got 0.0"),
        ({"num_partitions": 0}, "num_partitions must be positive or None, got 0"),
        ({"key": ("uid",)}, "key needs a column 'uid'"),
        ({"time": "t"}, "needs an int64 column 't'"),
    ],
)
def test_bad_configurations_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Joiner(Played(made_stream(0), 16), config(**options))


def test_a_column_that_the_joiner_makes_must_not_be_there():
    source = Played({"p": []}, 1)
    source.schema = SCHEMA.with_columns(label="float32")
    with pytest.raises(ValueError, match="the input has columns label, which the joiner makes"):
        Joiner(source, config())


def test_a_foreign_state_is_refused():
    with pytest.raises(ValueError, match="state of a joiner"):
        Joiner(Played(made_stream(0), 16), config()).restore({"t:0": 5})
