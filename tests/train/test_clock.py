"""Event time: believed within reason, and what makes rows expire."""

import json
import logging
import random

import pytest
import torch

from monolith.data import Batch
from monolith.embedding import MultiTable, Segment, SgdOptimizer, TableConfig
from monolith.train.state.clock import EventClock

WALL = 1_700_000_000
DAY = 86_400
START = WALL - 900 * DAY
MILLISECONDS = START * 1000


def batch(times, partition="0"):
    return Batch({"req_time": torch.tensor(times, dtype=torch.int64)}, 0, len(times), partition)


def clock(evict_every_seconds=3600, **rule):
    return EventClock(evict_every_seconds, wall_clock=lambda: float(WALL), **rule)


def see(one, times, batch_size=None, partition="0", is_new=False):
    """Let a clock see times, in batches; returns the time of each batch."""
    found = []
    for at in range(0, len(times), batch_size or len(times)):
        reading = one.read(batch(times[at : at + (batch_size or len(times))], partition), is_new_partition=is_new)
        one.advance(reading)
        found.append(reading.time)
        is_new = False
    return found


def confirmed(now=START, **rule):
    one = clock(**rule)
    see(one, [now] * 64)
    return one


def test_the_newest_event_counts():
    assert see(clock(), [5, 9, 7]) == [9]


def test_an_event_from_the_far_future_is_an_hour_ahead_at_most():
    assert see(confirmed(WALL), [WALL, 4_102_444_800]) == [WALL + 3600]


def test_times_before_1970_and_no_times_are_none():
    assert see(clock(), [-5]) == [0]
    assert clock().read(Batch({"req_time": torch.ones(0)}, 0, 0)).time == 0
    assert clock().read(Batch({"uid": torch.ones(1)}, 0, 1)).time == 0


@pytest.mark.parametrize("bad", [MILLISECONDS, START + DAY + 100, 3_976_214_400])
@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
def test_a_time_far_ahead_does_not_move_the_clock(bad, batch_size):
    one, other = confirmed(), confirmed()
    times = [START + second for second in range(200)]
    see(one, [*times[:100], bad, *times[100:]], batch_size)
    see(other, times, batch_size)
    assert (one.now, one.first_time, one.num_rejected) == (other.now, other.first_time, 1)


def test_rows_of_a_batch_do_not_take_the_bad_time_of_one_event():
    assert see(confirmed(), [START + 5, MILLISECONDS, START + 7]) == [START + 7]


def test_a_day_ahead_is_believed_at_once():
    one = confirmed()
    see(one, [START + DAY])
    assert (one.now, one.num_rejected) == (START + DAY, 0)


@pytest.mark.parametrize("batch_size", [1, 7, 63, 1000])
def test_a_gap_is_believed_with_the_64th_event_that_agrees(batch_size):
    one = confirmed()
    later = [START + 365 * DAY + second for second in range(64)]
    assert see(one, later[:63], batch_size)[-1] == later[62]  # rows that it only saw after the gap are not old
    assert (one.now, one.num_rejected) == (START, 63)
    see(one, later[63:])
    assert (one.now, one.num_rejected) == (later[-1], 0)


def test_an_event_in_between_that_contradicts_breaks_the_streak():
    one = confirmed()
    later = START + 365 * DAY
    for intruder in (START, later + 2 * DAY):
        see(one, [START] + [later] * 63 + [intruder] + [later] * 63, 10)
        assert one.now == START
    see(one, [later])
    assert one.now == later


def test_events_without_a_time_do_not_break_it():
    one = confirmed()
    see(one, [START + 9 * DAY, 0] * 64, 10)
    assert one.now == START + 9 * DAY


def test_bad_values_that_alternate_are_never_believed():
    one = confirmed()
    see(one, [WALL, START + 300 * DAY] * 500, 32)
    see(one, [MILLISECONDS, START + 1] * 500, 32)
    assert (one.now, one.num_rejected) == (START + 1, 1500)


def test_a_slow_stream_is_followed_after_a_gap():
    """With less than 64 events a day they still agree: each is within a day of those before."""
    one = confirmed()
    hourly = [START + 365 * DAY + 3600 * hour for hour in range(100)]
    see(one, hourly)
    assert one.now == hourly[-1]


def test_partitions_do_not_break_each_others_streaks():
    one, later = confirmed(), START + 30 * DAY
    for _ in range(16):
        see(one, [START + 1] * 4, partition="a")
        assert one.now == START + 1
        see(one, [later] * 4, partition="b")
    assert one.now == later


def test_short_files_go_on_with_each_others_streak():
    one, later = confirmed(), START + 30 * DAY
    for number in range(16):
        assert one.now == START
        see(one, [later] * 4, partition=f"file-{number}", is_new=True)
    assert one.now == later
    assert one.state()["streaks"] == {}


@pytest.mark.parametrize("batch_size", [1, 2, 5, 20])
def test_a_bad_first_event_is_given_up(batch_size):
    one = clock()
    see(one, [MILLISECONDS, *(START + second for second in range(19))], batch_size)
    assert (one.now, one.num_rejected) == (START + 18, 1)
    assert one.first_time <= START + 18


def test_a_late_event_among_the_first_does_not_set_the_clock_back():
    one = clock()
    see(one, [START, START + 1, START - 30 * DAY, START + 2, START - 30 * DAY])
    assert (one.now, one.num_rejected) == (START + 2, 0)


def test_a_first_event_from_long_ago_is_left_behind():
    one = clock()
    see(one, [START - 3000 * DAY, *(START + second for second in range(64))], 8)
    assert one.now == START + 63


def test_a_confirmed_clock_does_not_go_back():
    one = confirmed()
    see(one, [START - 365 * DAY] * 200, 20)
    assert one.now == START


def test_both_limits_can_be_set():
    one = confirmed(jump_seconds=10, jump_events=3)
    see(one, [START + 11] * 2)
    assert (one.now, one.num_rejected) == (START, 2)
    see(one, [START + 12])
    assert (one.now, one.num_rejected) == (START + 12, 0)


def test_one_event_is_enough_where_settings_say_so():
    one = clock(jump_events=1)
    see(one, [START, START + 300 * DAY])
    assert one.now == START + 300 * DAY


@pytest.mark.parametrize("seed", range(5))
def test_the_state_goes_on_bit_for_bit_from_any_event(seed):
    draws = random.Random(seed)
    good = [START + second for second in range(150)]
    strange = [draws.choice([MILLISECONDS, START + 40 * DAY, START - 40 * DAY, 0]) for _ in range(20)]
    times = [*strange[:3], *good[:90], *strange[3:], *([START + 90 * DAY] * 70), *good[90:]]
    partitions = [draws.choice("ab") for _ in times]
    straight = clock()
    for time, partition in zip(times, partitions, strict=True):
        resumed = clock()
        resumed.restore(json.loads(json.dumps(straight.state())))
        assert resumed.state() == straight.state()
        assert resumed.num_rejected == straight.num_rejected
        seen = [see(one, [time], partition=partition) for one in (straight, resumed)]
        assert seen[0] == seen[1]
        assert resumed.state() == straight.state()


@pytest.mark.parametrize("batch_size", [2, 5, 64, 97])
def test_the_size_of_batches_changes_nothing(batch_size):
    draws = random.Random(1)
    times = [
        draws.choice([START + second, START + second, START + 50 * DAY, MILLISECONDS, 0]) for second in range(300)
    ] + [START + 60 * DAY + second for second in range(100)]
    one, other = clock(), clock()
    see(one, times, 1)
    see(other, times, batch_size)
    assert one.state() | {"last_eviction": 0} == other.state() | {"last_eviction": 0}


def test_the_state_of_a_clock_that_believed_everything_is_read():
    one = clock()
    one.restore({"now": START, "last_eviction": START - 5})
    see(one, [MILLISECONDS, START - 300 * DAY])
    assert (one.now, one.first_time, one.num_rejected) == (START, START - 5, 1)


def test_rejected_times_are_logged_now_and_then(caplog):
    one = confirmed()
    with caplog.at_level(logging.WARNING):
        see(one, [MILLISECONDS, START] * 100, 2, partition="clicks/3")
    told = [record.getMessage() for record in caplog.records]
    assert [text.split()[0] for text in told] == ["1", "2", "4", "8", "16", "32", "64"]
    for text in ("req_time more than 86400 seconds ahead", "'clicks/3'", "event_time_jump_seconds (now 86400)"):
        assert text in told[0]


def test_rows_go_when_their_days_have_passed_and_it_is_time_to_look():
    tables = MultiTable({"uid": TableConfig(name="uid", segments=(Segment(1, SgdOptimizer(1.0)),), expire_days=2)})
    now = clock(evict_every_seconds=3 * DAY)

    def step(identity, time):
        reading = now.read(batch([time]))
        tables["uid"].apply_gradients(torch.tensor([identity]), torch.ones(1, 1), time=reading.time)
        now.advance(reading)
        return now.evict_if_due(tables)

    start = WALL - 30 * DAY
    assert [step(1, start), step(2, start + DAY), step(3, start + 2 * DAY)] == [0, 0, 0]
    # After three days rows 1 and 2 have not been seen for two days; row 3 has.
    assert step(4, start + 3 * DAY) == 2
    assert tables["uid"].contains(torch.tensor([1, 2, 3, 4])).tolist() == [False, False, True, True]
    assert step(5, start) == 0
    assert now.now == start + 3 * DAY


def test_a_renamed_table_keeps_the_time_of_its_last_eviction():
    clock = EventClock(3600)
    clock.last_evictions = {"uid": 500, "mov": 700}
    restored = EventClock(3600)
    restored.restore({**clock.state(), "now": 900}, {"user": "uid", "mov": "mov"})
    assert restored.last_evictions == {"user": 500, "mov": 700}
