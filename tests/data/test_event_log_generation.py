"""A position belongs to the log it was taken from: one that was cut or made anew is refused, however long it is."""

import os
import shutil
import threading

import pytest

from monolith.data import EventLogSource, EventLogWriter, OffsetError, assert_resume_is_exact, log_length
from monolith.errors import CorruptFileError
from tests.data.made_events import (
    FRAME_HEADER_BYTES,
    RECORD_BYTES,
    SCHEMA,
    SEGMENT_HEADER_BYTES,
    made,
    read,
    segments,
    write,
    write_first_version,
)
from tests.patience import PATIENCE_SECONDS


def position_after(path, offset, batch_size=5):
    source = EventLogSource(path, batch_size=batch_size)
    for batch in source:
        if batch.last >= offset:
            return source.state()
    raise AssertionError(f"{path} has no event {offset}")


def go_on(path, state, **options):
    source = EventLogSource(path, batch_size=5, **options)
    source.restore(state)
    return [(batch.first, batch.last) for batch in source]


def cut_to(path, num_frames, frame):
    """Cut the log's last file to its first frames, of `frame` events each."""
    os.truncate(segments(path)[-1], SEGMENT_HEADER_BYTES + num_frames * (FRAME_HEADER_BYTES + frame * RECORD_BYTES))


@pytest.mark.parametrize("follow", [False, True])
def test_a_log_that_was_cut_and_grew_again_is_refused(tmp_path, follow):
    write(tmp_path, [10, 10, 10])
    state = position_after(tmp_path, 25)
    cut_to(tmp_path, 2, frame=10)
    with pytest.raises(OffsetError, match="ends at offset 20, before offset 25"):
        go_on(tmp_path, state, follow=follow)
    write(tmp_path, [10, 10])
    with pytest.raises(OffsetError, match=r"event 24 is of generation \w{16}, not .* would be skipped.* restore_dir"):
        go_on(tmp_path, state, follow=follow)


def test_a_position_before_the_cut_is_good(tmp_path):
    write(tmp_path, [10, 10, 10])
    states = [position_after(tmp_path, offset) for offset in (5, 15, 20)]
    cut_to(tmp_path, 2, frame=10)
    write(tmp_path, [5])
    for state in states:
        assert go_on(tmp_path, state)[-1] == (20, 25)


def test_a_log_that_was_made_anew_is_refused(tmp_path):
    write(tmp_path, [10, 10])
    state = position_after(tmp_path, 15)
    shutil.rmtree(tmp_path)
    write(tmp_path, [10, 10])  # the same events, even
    with pytest.raises(OffsetError, match="event 14 is of generation"):
        go_on(tmp_path, state)
    assert go_on(tmp_path, {"0": 0})[0] == (0, 5)


def test_every_opening_of_a_writer_goes_on_with_the_log(tmp_path):
    for _ in range(4):
        write(tmp_path, [3, 4], segment_bytes=200)
    assert_resume_is_exact(lambda: EventLogSource(tmp_path, batch_size=5))
    generations = {position_after(tmp_path, offset, batch_size=1)["generation"] for offset in range(1, 29)}
    assert len(generations) == 4


def test_a_cut_is_noticed_where_a_deleted_segment_ended(tmp_path):
    write(tmp_path, [10, 10, 10], segment_bytes=1)
    state = position_after(tmp_path, 10)
    segments(tmp_path)[0].unlink()
    assert go_on(tmp_path, state)[0] == (10, 15)
    other = tmp_path / "other"
    write(other, [10, 10, 10], segment_bytes=1)
    segments(other)[0].unlink()
    with pytest.raises(OffsetError, match="event 9 is of generation"):
        go_on(other, state)


def test_segments_of_two_logs_are_not_read_as_one(tmp_path):
    write(tmp_path / "one", [10, 10], segment_bytes=1)
    write(tmp_path / "two", [10, 10], segment_bytes=1)
    shutil.copy(segments(tmp_path / "two")[1], segments(tmp_path / "one")[1])
    with pytest.raises(OffsetError, match="does not go on where the segment before it ends"):
        read(tmp_path / "one")


@pytest.mark.parametrize("how", ["cut", "removed", "made anew"])
def test_a_reader_that_follows_notices_that_its_log_was_replaced(tmp_path, how):
    log, failed, begun = tmp_path / "log", [], threading.Event()
    write(log, [10])
    stop = threading.Event()

    def follow():
        try:
            for _ in EventLogSource(log, batch_size=5, follow=True, stop=stop):
                begun.set()
        except (OffsetError, FileNotFoundError) as error:
            failed.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    assert begun.wait(PATIENCE_SECONDS)
    if how == "cut":
        cut_to(log, 0, frame=10)
    else:
        shutil.move(log, tmp_path / "gone")
        if how == "made anew":
            write(log, [10])
    thread.join(PATIENCE_SECONDS)
    stop.set()
    assert not thread.is_alive()
    # Between the move and the new log there is no folder to look into.
    assert "cut or replaced" in str(failed[0]) or (how != "cut" and isinstance(failed[0], FileNotFoundError))


def test_a_log_of_the_first_version_is_read_and_goes_on_in_the_present_one(tmp_path):
    assert write_first_version(tmp_path, [3, 4, 5]) == 12 == read(tmp_path) == log_length(tmp_path)
    assert position_after(tmp_path, 10) == {"0": 10}
    assert write(tmp_path, [6]) == 18 == read(tmp_path) == log_length(tmp_path)
    assert [file.name for file in segments(tmp_path)] == [f"{first:020d}.events" for first in (0, 12)]
    assert go_on(tmp_path, {"0": 10})[0] == (10, 15)
    assert_resume_is_exact(lambda: EventLogSource(tmp_path, batch_size=5))


def test_a_torn_tail_of_the_first_version_is_cut_before_the_log_goes_on(tmp_path):
    write_first_version(tmp_path, [3, 4])
    os.truncate(segments(tmp_path)[0], segments(tmp_path)[0].stat().st_size - 1)
    assert write(tmp_path, [2]) == 5 == read(tmp_path)


def test_an_empty_log_of_the_first_version_becomes_a_present_one(tmp_path):
    write_first_version(tmp_path, [])
    assert write(tmp_path, [2]) == 2 == read(tmp_path)
    assert len(segments(tmp_path)) == 1
    assert "generation" in position_after(tmp_path, 2, batch_size=2)


def test_a_later_version_is_refused_by_its_number(tmp_path):
    write(tmp_path, [3])
    data = bytearray(segments(tmp_path)[0].read_bytes())
    data[8] = 4
    segments(tmp_path)[0].write_bytes(data)
    with pytest.raises(CorruptFileError, match=r"version that this build does not read \(4; it reads 1, 2, 3\)"):
        read(tmp_path)


@pytest.mark.parametrize("generation", [5, "", "zz", "0" * 17, None])
def test_a_generation_that_is_none_is_refused(tmp_path, generation):
    write(tmp_path, [1])
    with pytest.raises(ValueError, match="16 hexadecimal digits"):
        EventLogSource(tmp_path, batch_size=1).restore({"0": 0, "generation": generation})


def test_positions_without_a_generation_are_taken_as_they_are(tmp_path):
    write(tmp_path, [10])
    source = EventLogSource(tmp_path, batch_size=4, start=3)
    assert source.state() == {"0": 3}
    with EventLogWriter(tmp_path, SCHEMA) as writer:
        writer.append(made(10, 2))
    assert [batch.last for batch in source] == [4, 8, 12]
