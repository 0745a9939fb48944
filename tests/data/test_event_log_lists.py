"""Lists in an event log: what goes in comes out; logs of every version of the format are read."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from monolith._core import native
from monolith.data import EventLogSource, EventLogWriter, Schema, assert_resume_is_exact
from monolith.data.event_log import writer as writer_module
from monolith.errors import CorruptFileError
from monolith.features import hash_bytes
from monolith.tensors import Ragged
from tests.data.made_events import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, read, segments, write

GOLDEN = Path(__file__).parents[1] / "golden" / "event_logs"
SCHEMA = Schema.of(uid="int64", tags="hash[]", prices="float32[]", query="bytes", label="float32")


def made(first, count):
    places = range(first, first + count)
    return {
        "uid": list(places),
        "tags": [[f"tag {tag}" for tag in range(place % 4)] for place in places],
        "prices": [[place / 4] * (place % 3) for place in places],
        "query": [f"q{place}" if place % 5 else "" for place in places],
        "label": [float(place % 2) for place in places],
    }


def write_lists(path, counts, **options):
    with EventLogWriter(path, SCHEMA, **options) as writer:
        for count in counts:
            writer.append(made(writer.offset, count))
        return writer.offset


def read_lists(path, batch_size=7):
    """Read the log, check every value, and return its length."""
    length = 0
    for batch in EventLogSource(path, batch_size=batch_size):
        expected = made(batch.first, len(batch))
        expected["tags"] = [[hash_bytes(tag.encode()) for tag in tags] for tags in expected["tags"]]
        expected["query"] = [list(text.encode()) for text in expected["query"]]
        columns = batch.columns.items()
        found = {name: one.to_list() if isinstance(one, Ragged) else one.tolist() for name, one in columns}
        assert found == expected
        length = batch.last
    return length


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_lists_come_back_and_resume_is_exact(tmp_path, segment_bytes, batch_size):
    assert write_lists(tmp_path, [3, 20], segment_bytes=segment_bytes) == 23
    assert write_lists(tmp_path, [5]) == 28 == read_lists(tmp_path, batch_size)
    assert_resume_is_exact(lambda: EventLogSource(tmp_path, batch_size=batch_size))


def test_an_append_beyond_the_frame_limit_becomes_several_frames(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "MAX_PAYLOAD_BYTES", 100)  # events have 24 to 58 bytes
    assert write_lists(tmp_path, [50], segment_bytes=1) == 50 == read_lists(tmp_path)
    payloads = [file.stat().st_size - SEGMENT_HEADER_BYTES - FRAME_HEADER_BYTES for file in segments(tmp_path)]
    assert len(payloads) > 10 and max(payloads) <= 100
    with EventLogWriter(tmp_path / "other", Schema.of(ids="int64[]")) as writer:
        with pytest.raises(ValueError, match="event 1 of this append has 108 bytes, a log takes at most 100"):
            writer.append({"ids": [[1], [1] * 13]})
        assert writer.offset == 0


@pytest.mark.parametrize("length", [2, 4, 2**32 - 1])
def test_lists_that_do_not_fit_their_frame_are_damage(tmp_path, length):
    with EventLogWriter(tmp_path, Schema.of(ids="int64[]")) as writer:
        writer.append({"ids": [[1, 2, 3]]})
    (file,) = segments(tmp_path)
    data = bytearray(file.read_bytes())
    head, payload = SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES
    struct.pack_into("<I", data, payload, length)
    struct.pack_into("<I", data, head + 20, native.crc32c(bytes(data[payload:])))
    struct.pack_into("<I", data, payload - 4, native.crc32c(bytes(data[head : payload - 4])))
    file.write_bytes(data)
    with pytest.raises(CorruptFileError, match=rf"frame at byte {head}: the lists .*end at byte"):
        list(EventLogSource(tmp_path, batch_size=1))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_log_of_every_version_is_read_and_goes_on(tmp_path, version):
    log = tmp_path / "log"
    shutil.copytree(GOLDEN / str(version), log)
    assert {file.read_bytes()[8] for file in segments(log)} == {version}
    has_lists = version == 3
    assert (read_lists if has_lists else read)(log) == 12
    with EventLogWriter(log, EventLogSource(log, batch_size=1).schema) as writer:
        writer.append(
            made(12, 2) if has_lists else {"uid": np.arange(12, 14) * 7919 - 5, "label": [0, 1], "seq": [12, 13]}
        )
    assert (read_lists if has_lists else read)(log) == 14
    assert len(segments(log)) == len(segments(GOLDEN / str(version))) + (
        version == 1
    )  # old frames get no new neighbours


def test_a_log_without_lists_has_the_version_that_older_builds_read(tmp_path):
    write(tmp_path, [3])
    assert segments(tmp_path)[0].read_bytes()[8] == 2
