"""Event time: believed within reason, never going back, and what makes rows expire."""

import torch

from monolith.embedding import MultiTable, Segment, SgdOptimizer, TableConfig
from monolith.train.state.clock import EventClock

WALL = 1_700_000_000
DAY = 86_400


def columns(*times):
    return {"req_time": torch.tensor(times, dtype=torch.int64)}


def clock(evict_every_seconds=3600):
    return EventClock(evict_every_seconds, wall_clock=lambda: float(WALL))


def test_the_newest_event_counts():
    assert clock().time_of(columns(5, 9, 7)) == 9


def test_an_event_from_the_far_future_is_an_hour_ahead_at_most():
    assert clock().time_of(columns(WALL, 4_102_444_800)) == WALL + 3600


def test_times_before_1970_and_no_times_are_none():
    assert clock().time_of(columns(-5)) == 0
    assert clock().time_of(columns()) == 0
    assert clock().time_of({"uid": torch.ones(1)}) == 0


def test_rows_go_when_their_days_have_passed_and_it_is_time_to_look():
    tables = MultiTable({"uid": TableConfig(name="uid", segments=(Segment(1, SgdOptimizer(1.0)),), expire_days=2)})
    now = clock(evict_every_seconds=3 * DAY)

    def step(identity, time):
        tables["uid"].apply_gradients(torch.tensor([identity]), torch.ones(1, 1), time=time)
        now.advance(time)
        return now.evict_if_due(tables)

    start = WALL - 30 * DAY
    assert [step(1, start), step(2, start + DAY), step(3, start + 2 * DAY)] == [0, 0, 0]
    # After three days rows 1 and 2 have not been seen for two days; row 3 has.
    assert step(4, start + 3 * DAY + 1) == 2
    assert tables["uid"].contains(torch.tensor([1, 2, 3, 4])).tolist() == [False, False, True, True]
    assert step(5, start) == 0
    assert now.now == start + 3 * DAY + 1


def test_the_state_goes_on():
    one, other = clock(), clock()
    one.advance(100)
    one.advance(50)
    other.restore(one.state())
    assert (other.now, other.last_eviction) == (100, 100)
