"""Steps that cut rows anew: re-batching and shuffling."""

import pytest

from monolith.data import Pipeline, assert_resume_is_exact
from monolith.data.flow import Rebatched, Shuffled
from tests.data.batch_list import BatchList, FailingOnce, check_rows, flat, made_batch, made_source, rows_of

NUM_ROWS = 22


@pytest.mark.parametrize("size", [1, 2, 4, 5, 22, 100])
def test_rebatching_keeps_rows_and_their_order(size):
    batches = list(Rebatched(made_source(), size))
    assert flat(batch.columns["row"].tolist() for batch in batches) == list(range(NUM_ROWS))
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    for batch in batches:
        check_rows(batch)
        assert batch.first == batch.columns["row"][0] and batch.last - batch.first == len(batch)


def test_a_remainder_can_be_dropped():
    assert [len(batch) for batch in Rebatched(made_source(), 4, drop_remainder=True)] == [4] * 5
    assert [len(batch) for batch in Rebatched(made_source(), 4)] == [4] * 5 + [2]


@pytest.mark.parametrize("size", [1, 2, 4, 5, 100])
@pytest.mark.parametrize("drop", [False, True])
def test_rebatching_resumes_exactly(size, drop):
    if size < NUM_ROWS or not drop:
        assert_resume_is_exact(lambda: Rebatched(made_source(), size, drop_remainder=drop))


def test_rebatching_goes_on_after_a_stop():
    source = Rebatched(made_source(), 4)
    first = [batch.columns["row"].tolist() for _, batch in zip(range(2), source, strict=False)]
    assert first == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert flat(rows_of(source)) == list(range(8, NUM_ROWS))


def test_rows_of_a_remainder_come_when_the_source_grows():
    source = made_source((3,))
    batches = Rebatched(source, 4, drop_remainder=True)
    assert rows_of(batches) == []
    state = batches.state()
    source._batches.append(made_batch(3, 2))
    assert rows_of(batches) == [[0, 1, 2, 3]]
    batches.restore(state)
    assert rows_of(batches) == [[0, 1, 2, 3]]


def test_shards_of_a_rebatched_source_have_all_rows_once_under_names_of_their_own():
    whole = Rebatched(made_source(), 3)
    parts = [whole.shard(2, index).shard(2, inner) for index in range(2) for inner in range(2)]
    assert sorted(flat(flat(rows_of(part)) for part in parts)) == list(range(NUM_ROWS))
    names = [batch.name for index in range(2) for batch in whole.shard(2, index)]
    assert len(set(names)) == len(names)
    assert_resume_is_exact(lambda: Rebatched(made_source(), 3).shard(2, 1))


def test_a_position_of_other_data_is_refused():
    source = Rebatched(made_source((3, 3)), 2)
    next(iter(source))
    other = Rebatched(made_source((1, 1, 1)), 2)
    other.restore(source.state())
    with pytest.raises(ValueError, match="other data"):
        list(other)
    with pytest.raises(ValueError, match="state of another source"):
        other.restore({"position": 1})


def test_empty_batches_are_passed_over():
    source = BatchList([made_batch(0, 2), made_batch(2, 0), made_batch(2, 3)])
    assert rows_of(Rebatched(source, 4)) == [[0, 1, 2, 3], [4]]
    assert_resume_is_exact(lambda: Rebatched(BatchList([made_batch(0, 2), made_batch(2, 0), made_batch(2, 3)]), 2))


def test_an_error_of_the_source_is_not_taken_for_its_end():
    batches = Rebatched(FailingOnce([made_batch(0, 2), made_batch(2, 2)]), 4)
    with pytest.raises(OSError, match="gone"):
        list(batches)
    assert rows_of(batches) == [[0, 1, 2, 3]]


def test_a_shuffle_moves_rows_within_their_windows_only():
    batches = list(Shuffled(made_source(), window=8, batch_size=4, seed=3))
    rows = flat(batch.columns["row"].tolist() for batch in batches)
    windows = [rows[:8], rows[8:16], rows[16:]]
    assert [sorted(window) for window in windows] == [list(range(8)), list(range(8, 16)), list(range(16, 22))]
    assert windows[0] != sorted(windows[0]) and [row - 8 for row in windows[1]] != windows[0]
    assert [(batch.first, batch.last) for batch in batches] == [(0, 4), (4, 8), (8, 12), (12, 16), (16, 20), (20, 22)]
    for batch in batches:
        check_rows(batch)


def test_a_shuffle_depends_on_its_seed_alone():
    orders = [
        rows_of(Shuffled(made_source(sizes), window=22, batch_size=2, seed=seed))
        for sizes, seed in (((22,), 1), ((11, 11), 1), ((22,), 2))
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize(("window", "size"), [(2, 2), (6, 2), (8, 4), (40, 4)])
def test_a_shuffle_resumes_exactly(window, size):
    assert_resume_is_exact(lambda: Shuffled(made_source(), window=window, batch_size=size, seed=1))
    assert_resume_is_exact(lambda: Shuffled(made_source(), window=window, batch_size=size, seed=1).shard(2, 1))


def test_every_place_of_a_window_is_equally_likely():
    source = made_source((1000,) * 10)
    rows = flat(rows_of(Shuffled(source, window=10, batch_size=10, seed=0)))
    first_places = [row % 10 for row in rows[::10]]
    counts = [first_places.count(place) for place in range(10)]
    assert min(counts) > 60 and max(counts) < 140  # 1000 draws of 10 places; 4 standard deviations are 38


def test_a_window_must_be_a_multiple_of_the_batch():
    with pytest.raises(ValueError, match="window=8"):
        Shuffled(made_source(), window=7, batch_size=4)


def test_steps_stack():
    def make():
        return (
            Pipeline(made_source())
            .shuffle(window=6, batch_size=3, seed=5)
            .rebatch(4)
            .filter(lambda batch: batch.columns["label"] > 0)
        )

    assert sorted(flat(rows_of(make()))) == list(range(1, NUM_ROWS, 2))
    assert_resume_is_exact(make)
