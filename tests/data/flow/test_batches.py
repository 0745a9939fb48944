"""Steps that pass batches on: repeating, taking, keeping, joining, splitting."""

from dataclasses import replace

import pytest
import torch

from monolith.data import Pipeline, Schema, assert_resume_is_exact
from monolith.data.data_source import data_source_key, java_hash
from monolith.data.flow import (
    Cached,
    CacheOne,
    Concatenated,
    Interleaved,
    MergedWindow,
    Repeated,
    SplitFlow,
    Taken,
    merge_flow,
)
from monolith.data.flow.cache import column_bytes
from tests.data.batch_list import BatchList, FailingOnce, flat, made_batch, made_source, rows_of

ROWS = rows_of(made_source())


def test_rounds_follow_one_another_under_different_names():
    batches = list(Repeated(made_source((2, 1)), 3))
    assert [batch.columns["row"].tolist() for batch in batches] == [[0, 1], [2]] * 3
    assert [batch.partition for batch in batches] == ["0@0", "0@0", "0@1", "0@1", "0@2", "0@2"]


def test_repeating_resumes_exactly():
    assert_resume_is_exact(lambda: Repeated(made_source((2, 1)), 3))
    assert_resume_is_exact(lambda: Repeated(made_source((2, 1)), None), max_batches=7)
    assert_resume_is_exact(lambda: Repeated(made_source(), 2).shard(2, 1))


def test_repeating_nothing_for_ever_is_refused():
    with pytest.raises(ValueError, match="no batches"):
        list(Repeated(made_source(()), None))
    assert list(Repeated(made_source(()), 5)) == []


def test_repeating_for_ever_goes_on_from_the_end_of_a_round():
    source = Repeated(made_source((2,)), None)
    source.restore({"round": 4, "source": {"position": 1}})
    assert next(iter(source)).partition == "0@5"


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_the_first_batches_are_taken(count):
    source = made_source()
    assert rows_of(Taken(source, count)) == ROWS[:count]
    assert source.num_reads == min(count, len(ROWS))


def test_taking_resumes_and_shards_exactly():
    assert_resume_is_exact(lambda: Taken(made_source(), 5))
    parts = [Taken(made_source(), 5).shard(2, index) for index in range(2)]
    assert sorted(flat(rows_of(part) for part in parts)) == ROWS[:5]
    inner = [Taken(made_source(), 5).shard(2, 0).shard(2, index) for index in range(2)]
    assert sorted(flat(rows_of(part) for part in inner)) == rows_of(parts[0].shard(1, 0)) == ROWS[0:5:2]
    assert_resume_is_exact(lambda: Taken(made_source(), 5).shard(2, 1))


def test_a_cache_reads_its_source_once():
    source = made_source()
    assert rows_of(Repeated(Cached(source), 3)) == ROWS * 3
    assert source.num_reads == len(ROWS)


def test_a_cache_reads_on_where_an_earlier_pass_stopped():
    source = made_source()
    cached = Cached(source)
    begin = cached.state()
    for _, _ in zip(range(3), cached, strict=False):
        pass
    cached.restore(begin)
    assert rows_of(cached) == ROWS and source.num_reads == len(ROWS)


def test_a_position_of_an_older_version_says_epoch():
    old, new = (Repeated(made_source((2, 1)), 9) for _ in range(2))
    old.restore({"epoch": 4, "source": {"position": 1}})
    new.restore({"round": 4, "source": {"position": 1}})
    assert old.state() == new.state()


def test_a_cache_restored_into_the_middle_keeps_batches_from_the_next_round_on():
    source = made_source()
    repeated = Repeated(Cached(source), 3)
    repeated.restore({"round": 0, "source": {"batch": 2, "source": {"position": 2}}})
    assert rows_of(repeated) == ROWS[2:] + ROWS * 2
    assert source.num_reads == len(ROWS[2:]) + len(ROWS)


def test_a_cache_resumes_exactly():
    assert_resume_is_exact(lambda: Cached(made_source()))
    assert_resume_is_exact(lambda: Repeated(Cached(made_source()), 2))
    assert_resume_is_exact(lambda: Repeated(Cached(made_source()), 2).shard(2, 0))


def test_a_cache_knows_its_limit():
    with pytest.raises(MemoryError, match="max_bytes=100"):
        list(Cached(made_source(), max_bytes=100))
    assert rows_of(Cached(made_source(), max_bytes=10_000)) == ROWS
    num_bytes = sum(column_bytes(column) for batch in made_source() for column in batch.columns.values())
    assert rows_of(Cached(made_source(), max_bytes=num_bytes)) == ROWS
    with pytest.raises(MemoryError, match=f"max_bytes={num_bytes - 1}"):
        list(Cached(made_source(), max_bytes=num_bytes - 1))


class AsColumn:
    """A chain's end with tuples as a source whose batches say what else was in the tuple."""

    def __init__(self, inner, to_batch):
        self._inner, self._to_batch = inner, to_batch
        self.schema = inner.schema
        self.state, self.restore = inner.state, inner.restore

    def __iter__(self):
        return (self._to_batch(element) for element in self._inner)


def with_flag(element):
    batch, is_last = element
    return batch.with_columns({**batch.columns, "is_last": torch.full((len(batch),), is_last)})


def test_the_last_batch_is_known_to_be_the_last():
    elements = list(Pipeline(made_source()).cache_one())
    assert [is_last for _, is_last in elements] == [False] * (len(ROWS) - 1) + [True]
    assert [batch.columns["row"].tolist() for batch, _ in elements] == ROWS
    assert list(CacheOne(made_source(()))) == []


def test_looking_ahead_resumes_exactly():
    assert_resume_is_exact(lambda: AsColumn(CacheOne(made_source()), with_flag))
    source = CacheOne(made_source())
    next(iter(source))
    assert [batch.columns["row"].tolist() for batch, _ in source] == ROWS[1:]


def test_a_batch_is_not_lost_when_the_look_at_the_next_one_fails():
    source = CacheOne(FailingOnce([made_batch(0, 2), made_batch(2, 2)]))
    with pytest.raises(OSError, match="gone"):
        list(source)
    elements = list(source)
    assert [batch.columns["row"].tolist() for batch, _ in elements] == [[0, 1], [2, 3]]
    assert [is_last for _, is_last in elements] == [False, True]


def joined(group):
    return replace(group[0], columns={"row": torch.cat([batch.columns["row"] for batch in group])}, last=group[-1].last)


def test_windows_of_batches():
    groups = list(Pipeline(made_source()).merged_window(3, drop_remainder=False))
    assert [[batch.columns["row"].tolist() for batch in group] for group in groups] == [ROWS[:3], ROWS[3:6], ROWS[6:]]
    assert len(list(MergedWindow(made_source()))) == len(ROWS) // 2
    for drop in (False, True):
        assert_resume_is_exact(lambda drop=drop: AsColumn(MergedWindow(made_source(), 3, drop_remainder=drop), joined))


def test_batches_of_an_unfinished_window_are_not_lost():
    source = made_source((1,))
    windows = MergedWindow(source)
    assert list(windows) == [] and windows.state() == {"position": 0}
    source._batches.append(made_batch(1, 1))
    assert [len(group) for group in windows] == [2]


def other_source():
    return BatchList([made_batch(100, 2), made_batch(102, 1), made_batch(103, 1), made_batch(104, 9)])


def test_sources_one_after_the_other():
    assert rows_of(Concatenated([made_source((2,)), other_source(), made_source(())])) == [
        [0, 1],
        *rows_of(other_source()),
    ]
    assert_resume_is_exact(lambda: Concatenated([made_source(), other_source()]))
    assert_resume_is_exact(lambda: Pipeline(made_source()).concatenate(other_source()).shard(2, 1))


def test_restoring_an_earlier_source_takes_the_later_ones_back():
    source = Concatenated([made_source((2, 1)), other_source()])
    begin = source.state()
    first = rows_of(source)
    source.restore(begin)
    assert rows_of(source) == first


def test_sources_by_turns():
    a, b = ROWS, rows_of(other_source())
    assert rows_of(merge_flow(made_source(), other_source())) == [
        a[0],
        b[0],
        a[1],
        b[1],
        a[2],
        b[2],
        a[3],
        b[3],
        *a[4:],
    ]
    assert rows_of(Interleaved([made_source(), other_source()], block_length=3)) == [
        *a[:3],
        *b[:3],
        *a[3:6],
        b[3],
        a[6],
    ]


@pytest.mark.parametrize("block_length", [1, 2, 3])
def test_turns_resume_exactly(block_length):
    assert_resume_is_exact(lambda: Interleaved([made_source(), other_source()], block_length=block_length))
    assert_resume_is_exact(lambda: Interleaved([made_source(), other_source()], block_length=block_length).shard(2, 1))


def test_joined_sources_have_one_schema_and_are_different():
    source = made_source()
    with pytest.raises(ValueError, match="twice"):
        Concatenated([source, source])
    with pytest.raises(ValueError, match="source 1 has the columns"):
        Interleaved([source, BatchList([], Schema.of(uid="int64"))])


def test_java_hashes():
    # String.hashCode of these, by its definition s[0]*31^(n-1) + ... + s[n-1] in 32 bits.
    for text in ("", "a", "hello", "a much longer name of a data source", "émile", "\U0001f600"):
        units = text.encode("utf-16-be")
        points = [units[i] * 256 + units[i + 1] for i in range(0, len(units), 2)]
        expected = sum(point * 31 ** (len(points) - 1 - i) for i, point in enumerate(points))
        assert java_hash(text) % 2**32 == expected % 2**32 and -(2**31) <= java_hash(text) < 2**31
        assert data_source_key(text) == (expected << 8) % 2**32
    assert java_hash("polygenelubricants") == -(2**31)


def test_flows_are_taken_apart_by_key_and_put_together_again():
    keys = (data_source_key("feed"), data_source_key("ads"), data_source_key("other"))

    def flow(index):
        return SplitFlow(made_source(keys=keys), ["feed", "ads"], index)

    feed, ads = (flat(rows_of(flow(index))) for index in range(2))
    assert feed == [row for row in range(22) if row % 3 == 0] and ads == [row for row in range(22) if row % 3 == 1]
    merged = list(Pipeline(flow(0)).merge_flow(flow(1)))
    assert sorted(flat(batch.columns["row"].tolist() for batch in merged)) == sorted(feed + ads)
    assert len({batch.name for batch in merged}) == len(merged)
    assert_resume_is_exact(lambda: flow(1))
    assert_resume_is_exact(lambda: merge_flow(flow(0), flow(1)).shard(2, 0))


def test_flows_of_one_source_do_not_disturb_each_other():
    source = made_source(keys=(data_source_key("a"), data_source_key("b")))
    flows = [Pipeline(source).split_flow(["a", "b"], index) for index in range(2)]
    assert rows_of(merge_flow(*flows)) == rows_of(merge_flow(*[flow.shard(1, 0) for flow in flows]))


def test_a_flow_needs_its_key_column_and_names():
    with pytest.raises(ValueError, match="place in it"):
        SplitFlow(made_source(), ["a"], 1)
    with pytest.raises(ValueError, match="data_source_key"):
        SplitFlow(BatchList([], Schema.of(uid="int64")), ["a"], 0)
