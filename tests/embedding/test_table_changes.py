"""Change trackers: everything that changed, once, until it was taken; tombstones; overflow."""

import pytest
import torch
from torch import Tensor

from monolith.embedding import Changes, Segment, SgdOptimizer, Table, TableConfig

ROWS = torch.ones(3, 2)


def make(max_tracked_changes: int = 1 << 20) -> Table:
    segments = (Segment(2, SgdOptimizer(learning_rate=1.0)),)
    config = TableConfig(name="movie", segments=segments, expire_days=1)
    return Table(config, max_tracked_changes=max_tracked_changes)


def ids(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def told(changes: Changes) -> tuple[list[int], list[int]]:
    """Return touched and erased ids, each of which must be listed once."""
    assert not changes.overflowed
    return sorted(changes.touched.tolist()), sorted(changes.erased.tolist())


def test_a_tracker_tells_each_change_once_from_its_beginning_on() -> None:
    table = make()
    table.assign(ids(1), ROWS[:1])
    tracker = table.track_changes()
    assert told(tracker.take()) == ([], [])
    table.assign(ids(2, 3, 2), ROWS)
    table.apply_gradients(ids(2), ROWS[:1])
    table.reinitialize(ids(4), time=0)
    table.lookup(ids(1, 2, 3))
    assert told(tracker.take()) == ([2, 3, 4], [])
    assert told(tracker.take()) == ([], [])
    table.assign_add(ids(3), ROWS[:1])
    assert told(tracker.take()) == ([3], [])


def test_erased_rows_leave_tombstones() -> None:
    table = make()
    table.assign(ids(1, 2, 3), ROWS, time=1)
    tracker = table.track_changes()
    table.erase(ids(1, 9))
    table.apply_gradients(ids(2), ROWS[:1], time=5)
    table.erase(ids(2))
    assert told(tracker.take()) == ([], [1, 2])
    assert table.evict(now=86401) == 1
    assert told(tracker.take()) == ([], [3])


def test_an_id_that_came_back_is_touched_not_erased() -> None:
    table = make()
    table.assign(ids(1, 2), ROWS[:2])
    tracker = table.track_changes()
    table.erase(ids(1, 2))
    table.assign(ids(1), ROWS[:1])
    assert told(tracker.take()) == ([1], [2])
    table.assign(ids(2), ROWS[:1])
    table.erase(ids(2))
    assert told(tracker.take()) == ([], [2])


def test_a_reused_row_counts_for_its_new_id() -> None:
    table = make()
    table.assign(ids(1), ROWS[:1])
    tracker = table.track_changes()
    table.assign(ids(1), ROWS[:1])
    table.erase(ids(1))
    table.assign(torch.arange(2, 3000), torch.ones(2998, 2))
    assert told(tracker.take()) == (list(range(2, 3000)), [1])
    table.assign(torch.arange(2, 3000), torch.ones(2998, 2))
    assert told(tracker.take()) == (list(range(2, 3000)), [])


def test_what_is_given_back_is_told_again() -> None:
    table = make()
    table.assign(ids(1, 2, 3), ROWS)
    tracker = table.track_changes()
    table.assign(ids(1, 2), ROWS[:2])
    table.erase(ids(3))
    changes = tracker.take()
    table.assign(ids(2, 4), ROWS[:2])
    tracker.give_back(changes)
    assert told(tracker.take()) == ([1, 2, 4], [3])
    assert told(tracker.take()) == ([], [])


def test_what_is_given_back_is_told_as_it_is_by_then() -> None:
    table = make()
    tracker = table.track_changes()
    table.assign(ids(1, 2), ROWS[:2])
    table.erase(ids(2))
    changes = tracker.take()
    table.erase(ids(1))
    table.assign(ids(2), ROWS[:1])
    tracker.give_back(changes)
    assert told(tracker.take()) == ([2], [1])


def test_trackers_do_not_see_each_other() -> None:
    table = make()
    first, second = table.track_changes(), table.track_changes()
    table.assign(ids(1), ROWS[:1])
    assert told(first.take()) == ([1], [])
    table.assign(ids(2), ROWS[:1])
    assert told(first.take()) == ([2], [])
    assert told(second.take()) == ([1, 2], [])
    first.close()
    table.assign(ids(3), ROWS[:1])
    assert told(second.take()) == ([3], [])
    with table.track_changes() as third:  # takes over the place of the first
        assert told(third.take()) == ([], [])
        table.assign(ids(1), ROWS[:1])
        assert told(third.take()) == ([1], [])


@pytest.mark.parametrize("change", ["assign", "erase"])
def test_too_many_changes_overflow_and_then_start_afresh(change: str) -> None:
    table = make(max_tracked_changes=256)  # one for each of the table's 256 parts
    many = torch.arange(5000)
    if change == "erase":
        table.assign(many, torch.ones(5000, 2))
    tracker, other = table.track_changes(), table.track_changes()
    _ = table.assign(many, torch.ones(5000, 2)) if change == "assign" else table.erase(many)
    changes = tracker.take()
    assert changes.overflowed
    table.assign(ids(1), ROWS[:1])
    assert told(tracker.take()) == ([1], [])
    tracker.give_back(changes)
    table.assign(ids(2), ROWS[:1])
    assert tracker.take().overflowed
    table.assign(ids(2), ROWS[:1])
    assert told(tracker.take()) == ([2], [])
    assert other.take().overflowed


def test_a_cleared_or_restored_table_must_be_taken_whole(tmp_path: object) -> None:
    table = make()
    table.assign(ids(1), ROWS[:1])
    table.save(f"{tmp_path}/t")
    with table.track_changes() as tracker:
        table.clear()
        assert tracker.take().overflowed
        table.restore(f"{tmp_path}/t")
        assert tracker.take().overflowed
        table.restore(f"{tmp_path}/t", clear=False)
        assert told(tracker.take()) == ([1], [])


def test_a_closed_tracker_says_so() -> None:
    tracker = make().track_changes()
    changes = tracker.take()
    tracker.close()
    tracker.close()
    with pytest.raises(ValueError, match=r"'movie'.*closed"):
        tracker.take()
    with pytest.raises(ValueError, match=r"'movie'.*closed"):
        tracker.give_back(changes)


def test_the_seventh_tracker_is_one_too_many() -> None:
    table = make()
    trackers = [table.track_changes() for _ in range(6)]
    with pytest.raises(ValueError, match="'movie' has 6 consumers"):
        table.track_changes()
    trackers[3].close()
    table.assign(ids(1), ROWS[:1])
    with table.track_changes() as tracker:
        assert told(tracker.take()) == ([], [])
    assert told(trackers[5].take()) == ([1], [])
