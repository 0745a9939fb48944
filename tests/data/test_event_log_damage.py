"""A log that was cut or damaged: a torn tail costs only the torn append, anything else is named."""

import errno
import os
import shutil
import struct

import pytest

from monolith._core import native
from monolith.data import EventLogSource, EventLogWriter, log_length
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
)


def frame_bytes(count: int) -> int:
    return FRAME_HEADER_BYTES + count * RECORD_BYTES


@pytest.mark.parametrize("segment_bytes", [200, 1 << 20])
def test_a_tail_cut_at_any_byte_costs_only_its_append(tmp_path, segment_bytes):
    whole = tmp_path / "whole"
    write(whole, [3, 4, 6], segment_bytes=segment_bytes)
    size = segments(whole)[-1].stat().st_size
    for cut in range(size - frame_bytes(6), size):
        log = tmp_path / f"cut-{cut}"
        shutil.copytree(whole, log)
        os.truncate(segments(log)[-1], cut)
        assert read(log) == log_length(log) == 7
        with EventLogWriter(log, SCHEMA, segment_bytes=segment_bytes) as writer:
            assert writer.offset == 7
            writer.append(made(7, 2))
        assert read(log) == log_length(log) == 9


def test_a_bit_flipped_anywhere_is_damage_or_a_torn_tail(tmp_path):
    write(tmp_path, [2, 1, 2])
    file = segments(tmp_path)[0]
    sound = file.read_bytes()
    last_frame = SEGMENT_HEADER_BYTES + frame_bytes(2) + frame_bytes(1)
    starts = [SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + frame_bytes(2)]
    for bit in range(len(sound) * 8):
        data = bytearray(sound)
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        if bit // 8 >= last_frame:
            assert read(tmp_path) == log_length(tmp_path) == 3
            continue
        frame = max((start for start in starts if start <= bit // 8), default=0)
        for use in (lambda: read(tmp_path), lambda: EventLogWriter(tmp_path, SCHEMA)):
            with pytest.raises(CorruptFileError, match=rf"{file.name}.* byte {frame}\b"):
                use()
        assert file.read_bytes() == data  # nobody "repaired" it


def test_a_damaged_end_before_another_segment_is_no_torn_tail(tmp_path):
    write(tmp_path, [3, 4, 5], segment_bytes=1)
    file = segments(tmp_path)[1]
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(CorruptFileError, match=rf"{file.name}.* byte {SEGMENT_HEADER_BYTES}\b"):
        read(tmp_path)


def test_a_missing_segment_in_the_middle_is_named(tmp_path):
    write(tmp_path, [3, 4, 5], segment_bytes=1)
    segments(tmp_path)[1].unlink()
    for start in (0, 3, 5):
        with pytest.raises(CorruptFileError, match="offset 3.* missing"):
            read(tmp_path, start=start)
    assert read(tmp_path, start=7) == 12


def test_zeros_that_a_power_cut_left_are_a_torn_tail(tmp_path):
    write(tmp_path, [3])
    with open(segments(tmp_path)[0], "ab") as file:
        file.write(bytes(4096))
    assert read(tmp_path) == 3
    assert write(tmp_path, [2]) == 5 == read(tmp_path)
    assert segments(tmp_path)[0].stat().st_size == SEGMENT_HEADER_BYTES + frame_bytes(3) + frame_bytes(2)


@pytest.mark.parametrize(
    ("count", "first", "payload_bytes"),
    [(0, 3, 0), (1, 4, RECORD_BYTES), (1, 3, RECORD_BYTES + 1), (2**32 - 1, 3, 2**32 - 1), (2, 0, 2 * RECORD_BYTES)],
)
def test_a_frame_with_right_checksum_and_wrong_content_is_refused(tmp_path, count, first, payload_bytes):
    write(tmp_path, [3])
    head = struct.pack("<4sIQIIQ", b"EVTF", count, first, payload_bytes, native.crc32c(bytes(64)), 1)
    with open(segments(tmp_path)[0], "ab") as file:
        file.write(head + struct.pack("<I", native.crc32c(head)) + bytes(64))
    with pytest.raises(CorruptFileError, match=rf"byte {SEGMENT_HEADER_BYTES + frame_bytes(3)}\b"):
        read(tmp_path)


def test_a_frame_that_claims_gigabytes_is_a_torn_tail_and_allocates_nothing(tmp_path):
    write(tmp_path, [3])
    count = 2**32 // RECORD_BYTES
    head = struct.pack("<4sIQIIQ", b"EVTF", count, 3, count * RECORD_BYTES, 0, 1)
    with open(segments(tmp_path)[0], "ab") as file:
        file.write(head + struct.pack("<I", native.crc32c(head)) + bytes(64))
    assert read(tmp_path) == 3 == log_length(tmp_path)


def test_the_files_of_a_log_belong_together(tmp_path):
    write(tmp_path, [3])
    schema_file = tmp_path / "schema.json"
    text = schema_file.read_text()
    schema_file.write_text(text.replace("uid", "vid"))
    with pytest.raises(CorruptFileError, match="another schema"):
        read(tmp_path)
    schema_file.write_text(text[:-3])
    with pytest.raises(CorruptFileError, match=r"schema\.json"):
        read(tmp_path)
    schema_file.unlink()
    with pytest.raises(CorruptFileError, match=r"schema\.json is missing"):
        EventLogWriter(tmp_path, SCHEMA)
    schema_file.write_text(text)
    segments(tmp_path)[0].rename(tmp_path / f"{5:020d}.events")
    with pytest.raises(CorruptFileError, match="holds events from offset 0"):
        read(tmp_path, start=5)
    segments(tmp_path)[0].unlink()
    for use in (lambda: read(tmp_path), lambda: EventLogWriter(tmp_path, SCHEMA)):
        with pytest.raises(CorruptFileError, match="events are gone"):
            use()


def test_a_crash_while_the_log_is_made_leaves_nothing_in_the_way(tmp_path):
    write(tmp_path, [])
    (tmp_path / "schema.json").unlink()
    (tmp_path / f"{9:020d}.events.tmp").write_bytes(b"half")
    assert write(tmp_path, [4]) == 4 == read(tmp_path)
    assert not list(tmp_path.glob("*.tmp"))


def test_a_full_disk_loses_nothing_that_was_taken(tmp_path, monkeypatch):
    real, room = os.pwrite, [150]

    def pwrite_until_full(handle, data, at):
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "no space")
        written = real(handle, data[: room[0]], at)
        room[0] -= written
        return written

    with EventLogWriter(tmp_path, SCHEMA) as writer:
        monkeypatch.setattr(os, "pwrite", pwrite_until_full)
        writer.append(made(0, 3))
        writer.append(made(3, 5))
        with pytest.raises(OSError, match="no space"):
            writer.flush()
        assert read(tmp_path) == 3  # 150 bytes hold the first frame and a part of the second
        room[0] = 1 << 20
        assert writer.append(made(8, 1)) == 9
    assert read(tmp_path) == 9


def test_a_failed_sync_ends_the_writer(tmp_path, monkeypatch):
    def fail(handle):
        raise OSError(errno.EIO, "bad disk")

    writer = EventLogWriter(tmp_path, SCHEMA)
    writer.append(made(0, 1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="bad disk"):
            writer.sync()
    with pytest.raises(ValueError, match="open a new one"):
        writer.sync()
    EventLogWriter(tmp_path, SCHEMA).close()


def test_a_reader_sees_a_torn_tail_replaced_by_the_next_writer(tmp_path):
    write(tmp_path, [3, 6])
    os.truncate(segments(tmp_path)[0], SEGMENT_HEADER_BYTES + frame_bytes(3) + frame_bytes(6) - 5)
    batches = iter(EventLogSource(tmp_path, batch_size=3, follow=True))
    assert next(batches).last == 3
    write(tmp_path, [1, 2])
    batch = next(batches)
    assert (batch.first, batch.last, batch.columns["uid"].tolist()) == (3, 6, made(3, 3)["uid"].tolist())
