"""What a user of the log sees: what goes in comes out, in batches that never move."""

import os
import threading

import numpy as np
import pytest
import torch

from monolith.data import (
    EventLogSource,
    EventLogWriter,
    LogInUseError,
    OffsetError,
    Schema,
    assert_resume_is_exact,
    log_length,
)
from monolith.data.event_log import reader
from monolith.data.event_log.reader import LogReader
from monolith.data.event_log.segment import list_segments
from tests.data.made_events import (
    FRAME_HEADER_BYTES,
    RECORD_BYTES,
    SCHEMA,
    SEGMENT_HEADER_BYTES,
    made,
    read,
    segments,
    write,
)
from tests.patience import PATIENCE_SECONDS

FRAMES = [1, 2, 30, 7, 64, 1, 1, 90]


@pytest.mark.parametrize(
    ("segment_bytes", "firsts"),
    [
        (1, [0, 1, 3, 33, 40, 104, 105, 106]),  # a frame each
        (500, [0, 3, 33, 40, 104, 106]),  # a frame of n events has 36 + 20 n bytes
        (1 << 20, [0]),
    ],
)
def test_what_was_appended_is_read(tmp_path, segment_bytes, firsts):
    assert write(tmp_path, FRAMES, segment_bytes=segment_bytes) == sum(FRAMES)
    assert read(tmp_path) == log_length(tmp_path) == sum(FRAMES)
    assert [file.name for file in segments(tmp_path)] == [f"{first:020d}.events" for first in firsts]


@pytest.mark.parametrize("segment_bytes", [1, 500, 1 << 20])
@pytest.mark.parametrize("batch_size", [1, 5, 64, 1000])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_resume_is_exact(tmp_path, segment_bytes, batch_size, drop_remainder):
    write(tmp_path, FRAMES[:6], segment_bytes=segment_bytes)
    if drop_remainder and batch_size == 1000:
        assert list(EventLogSource(tmp_path, batch_size=1000, drop_remainder=True)) == []
        return
    assert_resume_is_exact(lambda: EventLogSource(tmp_path, batch_size=batch_size, drop_remainder=drop_remainder))


@pytest.mark.parametrize("start", range(24))
def test_from_any_offset_batches_end_at_multiples_of_their_size(tmp_path, start):
    write(tmp_path, [5, 1, 17], segment_bytes=100)
    source = EventLogSource(tmp_path, batch_size=8)
    source.restore({"0": start})
    bounds = [(batch.first, batch.last) for batch in source]
    expected_ends = [end for end in (8, 16, 23) if end > start]
    assert [last for _, last in bounds] == expected_ends
    assert [first for first, _ in bounds] == [start, *expected_ends[:-1]][: len(expected_ends)]
    assert read(tmp_path, start=start) == 23


def test_a_source_can_go_back_in_the_middle_of_an_iteration(tmp_path):
    write(tmp_path, [40])
    source = EventLogSource(tmp_path, batch_size=10)
    batches = iter(source)
    assert [next(batches).first for _ in range(3)] == [0, 10, 20]
    source.restore({"0": 5})
    assert [(batch.first, batch.last) for batch in batches] == [(5, 10), (10, 20), (20, 30), (30, 40)]


def test_columns_are_writable_tensors_of_the_schema(tmp_path):
    with EventLogWriter(tmp_path, Schema.of(x="float32")) as writer:
        writer.append({"x": torch.tensor([1.5, 2.5])})
        writer.append({"x": np.array([True, False])})
    (batch,) = EventLogSource(tmp_path, batch_size=4)
    batch.columns["x"] += 1
    assert batch.columns["x"].dtype == torch.float32 and batch.columns["x"].tolist() == [2.5, 3.5, 2.0, 1.0]


def test_flush_shows_what_append_collected(tmp_path):
    with EventLogWriter(tmp_path, SCHEMA) as writer:
        assert writer.append(made(0, 10)) == writer.offset == 10
        assert log_length(tmp_path) == 0 == read(tmp_path)
        writer.flush()
        assert log_length(tmp_path) == 10 == read(tmp_path)
        assert writer.append(made(10, 0)) == 10  # nothing in, nothing written
    assert segments(tmp_path)[0].stat().st_size == SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 10 * RECORD_BYTES


def test_an_append_beyond_the_frame_limit_becomes_several_frames(tmp_path):
    count = (33 << 20) // RECORD_BYTES
    assert write(tmp_path, [count]) == count
    assert len(segments(tmp_path)) == 3  # 16, 16 and 1 MiB, each larger than a segment should be
    last = list(EventLogSource(tmp_path, batch_size=1 << 19))[-1]
    assert last.last == count and last.columns["seq"][-1] == count - 1


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"uid": [1], "label": [1.0]}, "exactly the columns"),
        ({"uid": [1], "label": [1.0], "seq": [1], "more": [1]}, "exactly the columns"),
        ({"uid": [1, 2], "label": [1.0], "seq": [1]}, "equal length"),
        ({"uid": [[1]], "label": [[1.0]], "seq": [[1]]}, "where the type says"),
        ({"uid": [1.5], "label": [1.0], "seq": [1]}, "'uid' cannot be read as 'int64': it holds float64"),
    ],
)
def test_columns_that_do_not_fit_are_refused_and_nothing_is_appended(tmp_path, columns, error):
    arrays = {name: np.array(values, np.float32 if name == "label" else None) for name, values in columns.items()}
    with EventLogWriter(tmp_path, SCHEMA) as writer:
        with pytest.raises((ValueError, TypeError), match=error):
            writer.append(arrays)
        assert writer.offset == 0


def test_a_second_writer_is_told_who_has_the_log(tmp_path):
    first = EventLogWriter(tmp_path, SCHEMA)
    with pytest.raises(LogInUseError, match=rf"process {os.getpid()}\b"):
        EventLogWriter(tmp_path, SCHEMA)
    first.append(made(0, 3))
    first.close()
    first.close()
    with pytest.raises(ValueError, match="closed"):
        first.append(made(3, 1))
    assert write(tmp_path, [2]) == 5 == read(tmp_path)


def test_a_log_keeps_its_schema(tmp_path):
    write(tmp_path, [3])
    with pytest.raises(ValueError, match="write with the log's schema"):
        EventLogWriter(tmp_path, Schema.of(uid="int64"))
    assert write(tmp_path, [1]) == 4  # the refused writer let go of the lock


def test_a_missing_log_is_an_error_with_a_way_out(tmp_path):
    for call in (lambda: EventLogSource(tmp_path / "no", batch_size=1), lambda: log_length(tmp_path / "no")):
        with pytest.raises(FileNotFoundError, match="EventLogWriter"):
            call()


def test_deleted_events_are_an_error_and_never_skipped(tmp_path):
    write(tmp_path, [10, 10, 10], segment_bytes=1)
    segments(tmp_path)[0].unlink()
    with pytest.raises(OffsetError, match="begins at offset 10"):
        next(iter(EventLogSource(tmp_path, batch_size=5, start=3)))
    assert read(tmp_path, start=10) == 30
    assert write(tmp_path, [1]) == 31


def test_a_position_beyond_the_log_is_an_error(tmp_path):
    write(tmp_path, [10])
    with pytest.raises(OffsetError, match="ends at offset 10"):
        next(iter(EventLogSource(tmp_path, batch_size=5, start=11, follow=True)))
    assert list(EventLogSource(tmp_path, batch_size=5, start=10)) == []


@pytest.mark.parametrize("state", [{}, {"1": 0}, {"0": -1}, {"0": 0, "1": 0}])
def test_a_state_of_something_else_is_refused(tmp_path, state):
    write(tmp_path, [1])
    with pytest.raises(ValueError, match="state of an event log"):
        EventLogSource(tmp_path, batch_size=1).restore(state)


def test_following_waits_for_whole_batches_and_ends_when_told(tmp_path):
    stop, seen = threading.Event(), threading.Semaphore(0)
    bounds = []

    def follow():
        for batch in EventLogSource(tmp_path, batch_size=10, follow=True, stop=stop):
            bounds.append((batch.first, batch.last))
            seen.release()

    with EventLogWriter(tmp_path, SCHEMA, segment_bytes=300) as writer:
        thread = threading.Thread(target=follow)
        thread.start()
        for count in (4, 5, 1, 13, 9):  # 32 events: three whole batches, two events over
            writer.append(made(writer.offset, count))
            writer.flush()
        for _ in range(3):
            assert seen.acquire(timeout=PATIENCE_SECONDS)
        stop.set()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert bounds == [(0, 10), (10, 20), (20, 30)]


def test_a_reader_misses_nothing_that_was_appended_just_before_a_new_segment(tmp_path, monkeypatch):
    with EventLogWriter(tmp_path, SCHEMA, segment_bytes=300) as writer:
        writer.append(made(0, 3))
        writer.flush()
        log = LogReader(tmp_path, SCHEMA, 0)
        assert len(log.read(100)["seq"]) == 3

        def list_after_the_writer_went_on(path):
            writer.append(made(writer.offset, 3))  # still in the segment the reader found at its end
            writer.append(made(writer.offset, 30))  # in the next
            writer.flush()
            return list_segments(path)

        monkeypatch.setattr(reader, "list_segments", list_after_the_writer_went_on)
        assert log.read(100)["seq"].tolist() == [3, 4, 5]
        monkeypatch.undo()
        assert log.read(100)["seq"].tolist() == list(range(6, 36))
        log.close()


def test_shards_share_nothing_and_together_are_the_log(tmp_path):
    write(tmp_path, [100])
    whole = EventLogSource(tmp_path, batch_size=16)
    parts = [whole.shard(3, index) for index in range(3)]
    names = [[batch.name for batch in part] for part in parts]
    assert [len(part) for part in names] == [3, 2, 2]
    assert sorted(sum(names, [])) == sorted(batch.name for batch in whole)
    twice = [batch.first // 16 for batch in whole.shard(2, 1).shard(2, 1)]
    assert twice == [3]
    assert_resume_is_exact(lambda: EventLogSource(tmp_path, batch_size=16).shard(3, 1))
    with pytest.raises(ValueError, match="shard 3 of 3"):
        whole.shard(3, 3)


def test_columns_of_a_fixed_width_come_back(tmp_path):
    schema = Schema.of(uid="int64", dense="float32[3]")
    dense = np.arange(15, dtype=np.float32).reshape(5, 3)
    with EventLogWriter(tmp_path, schema) as writer:
        writer.append({"uid": np.arange(5), "dense": dense})
        with pytest.raises(ValueError, match=r"'dense'.* shape \(2,\) where the type says \(3,\)"):
            writer.append({"uid": np.arange(5), "dense": dense[:, :2]})
    (batch,) = EventLogSource(tmp_path, batch_size=5)
    assert batch.columns["dense"].tolist() == dense.tolist()
