"""Damaged record files: the error says where, or the damage is left out and counted; nothing else may happen."""

import gzip
import os
import random
import struct
import tracemalloc
import warnings

import pytest

from monolith.data import assert_resume_is_exact
from monolith.data.files import PbFraming, RecordFile, RecordFileSource, TFRecordFraming
from monolith.data.files import record_file as record_file_module
from monolith.errors import CorruptFileError
from tests.data.files.made_files import FRAMINGS, batch_records, framing_name, made_records, write_file

SIZE_ONLY = PbFraming(has_sort_id=False)


def damaged(tmp_path, change, records=None, framing=None, name="damaged"):
    """Write a file, change its bytes, and return its path."""
    path = write_file(tmp_path / name, records or [b"abcd"] * 6, framing or TFRecordFraming())
    content = bytearray(open(path, "rb").read())
    content = change(content) or content
    open(path, "wb").write(content)
    return path


def flip(at):
    def change(content):
        content[at] ^= 1

    return change


def all_records(source):
    return [record for batch in source for record in batch_records(batch)]


def raises(path, message, **options):
    """Reading raises, with the file and the byte; reading again says the same; nothing of the batch was yielded."""
    source = RecordFileSource(path, batch_size=4, **options)
    before = []
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=message) as error:
            for batch in source:
                before += batch_records(batch)
        assert path in str(error.value)
    return before


# A record of 4 bytes takes 20.
def test_a_wrong_length_checksum(tmp_path):
    path = damaged(tmp_path, flip(100 + 1))
    assert len(raises(path, "byte 100: the length")) == 4
    source = RecordFileSource(path, batch_size=4, on_error="skip")
    with pytest.warns(UserWarning, match="byte 100"):
        assert len(all_records(source)) == 5
    assert source.num_skipped == 1


@pytest.mark.parametrize("at", [100 + 12, 100 + 16])
def test_a_wrong_data_checksum(tmp_path, at):
    path = damaged(tmp_path, flip(at))
    assert len(raises(path, "byte 100 does not fit its checksum")) == 4
    source = RecordFileSource(path, batch_size=4, on_error="skip")
    assert [(batch.first, batch.last, len(batch)) for batch in source] == [(0, 4, 4), (4, 6, 1)]
    assert source.num_skipped == 1
    assert_resume_is_exact(lambda: RecordFileSource(path, batch_size=4, on_error="skip"))


def test_a_batch_of_bad_records_alone_is_passed_over(tmp_path):
    def change(content):
        for record in (0, 1, 2, 3, 5):
            content[20 * record + 13] ^= 1

    path = damaged(tmp_path, change)
    source = RecordFileSource(path, batch_size=2, on_error="skip")
    assert [(batch.first, batch.last, len(batch)) for batch in source] == [(4, 6, 1)]
    assert source.num_skipped == 5


def read_all(path, framing, **options):
    """Return the records of a file, the number of faults it counts, and its warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        with RecordFile(path, framing, **options) as file:
            return list(file), file.num_skipped, [str(each.message) for each in warned]


@pytest.mark.parametrize("framing", FRAMINGS, ids=framing_name)
def test_every_truncation(tmp_path, framing):
    records = made_records(6)
    path = write_file(tmp_path / "a", records, framing)
    content = open(path, "rb").read()
    with RecordFile(path, framing) as file:
        ends = [0, *(file.byte for _ in iter(lambda: file.skip(1), 0))]
    assert len(ends) == 7
    for size in range(len(content)):
        open(path, "wb").write(content[:size])
        num_whole = sum(end <= size for end in ends) - 1
        got, num_skipped, warned = read_all(path, framing, on_error="skip")
        assert got == records[:num_whole]
        assert num_skipped == len(warned) == (size not in ends)
        if size not in ends:
            # The original took this for the end of the input.
            with pytest.raises(CorruptFileError, match=f"{path}: truncated: the record at byte {ends[num_whole]} "):
                read_all(path, framing)


@pytest.mark.parametrize("compression", ["SNAPPY", "ZSTD", "ZLIB", "GZIP"])
def test_every_truncation_of_a_compressed_file(tmp_path, compression):
    records = made_records(12)
    path = write_file(tmp_path / "a", records, TFRecordFraming(), compression)
    content = open(path, "rb").read()
    for size in range(1, len(content), 3):
        open(path, "wb").write(content[:size])
        with pytest.raises(CorruptFileError, match=path):
            read_all(path, "tfrecord", compression=compression)
        got, num_skipped, warned = read_all(path, "tfrecord", compression=compression, on_error="skip")
        assert got == records[: len(got)] and num_skipped == len(warned) == 1


def test_a_size_of_dead_beef(tmp_path):
    content = struct.pack("<Q", 3) + b"abc" + struct.pack("<Q", 0xFEFEFEFE) + bytes(100)
    path = damaged(tmp_path, lambda _: content, framing=SIZE_ONLY)
    raises(path, "byte 11: DEADBEEF value found", framing=SIZE_ONLY)
    source = RecordFileSource(path, framing=SIZE_ONLY, batch_size=4, on_error="skip")
    with pytest.warns(UserWarning, match="DEADBEEF"):
        assert all_records(source) == [b"abc"]


@pytest.mark.parametrize("length", [2**30, 2**30 + 1, 2**62, 2**64 - 1])
@pytest.mark.parametrize("framing", [SIZE_ONLY, PbFraming()], ids=["size", "sort id"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_huge_length_takes_no_memory(tmp_path, length, framing, suffix):
    content = struct.pack("<QQ", length, 5) + b"abcde"
    path = str(tmp_path / f"a{suffix}")
    with gzip.open(path, "wb") if suffix else open(path, "wb") as file:
        file.write(content)
    tracemalloc.start()
    try:
        raises(path, "over the limit of 1073741824" if length > 2**30 else "truncated", framing=framing)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_a_long_record_needs_a_higher_limit(tmp_path):
    path = write_file(tmp_path / "a", [b"x" * 101], TFRecordFraming())
    raises(path, "101 bytes is over the limit of 100", framing=TFRecordFraming(max_record_bytes=100))
    assert len(all_records(RecordFileSource(path, batch_size=1, framing=TFRecordFraming(max_record_bytes=101)))) == 1


def test_one_bad_file_does_not_end_the_others(tmp_path):
    bad = damaged(tmp_path, flip(20), name="a")
    good = write_file(tmp_path / "b", [b"good"], TFRecordFraming())
    source = RecordFileSource([bad, good], batch_size=4, on_error="skip")
    with pytest.warns(UserWarning):
        assert all_records(source) == [b"abcd", b"good"]


def test_shards_count_what_is_theirs(tmp_path):
    path = damaged(tmp_path, flip(100 + 1))  # Record 5: the length
    sources = [RecordFileSource(path, batch_size=1, on_error="skip").shard(2, index) for index in range(2)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert [len(all_records(source)) for source in sources] == [3, 2]
    assert [source.num_skipped for source in sources] == [0, 1] and len(warned) == 1


def test_a_file_that_shrank_or_vanished(tmp_path):
    path = write_file(tmp_path / "a", [b"abcd"] * 10, TFRecordFraming())
    source = RecordFileSource(path, batch_size=5)
    next(iter(source))
    state = source.state()
    source.close()
    os.truncate(path, 60)
    with pytest.raises(CorruptFileError, match=f"{path}: ends at byte 60, before the position 100"):
        next(iter(source))
    os.remove(path)
    source.restore(state)
    with pytest.raises(FileNotFoundError, match=path):
        next(iter(source))


def test_a_file_that_shrinks_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(record_file_module, "BUFFER_BYTES", 50)
    path = write_file(tmp_path / "a", [b"abcd"] * 100, TFRecordFraming())
    source = RecordFileSource(path, batch_size=1)
    iterator = iter(source)
    next(iterator)
    os.truncate(path, 200)
    with pytest.raises(CorruptFileError, match=f"{path}: had 2000 bytes when it was opened and ends at byte 200"):
        list(iterator)


def test_no_memory_is_taken_for_what_a_snappy_block_cannot_hold(tmp_path):
    block = b"\xff\xff\xff\xff\x07" + bytes(95)  # 2 GiB, it says
    path = damaged(tmp_path, lambda _: struct.pack(">I", len(block)) + block)
    with pytest.raises(CorruptFileError, match="snappy block at byte 0 has no possible size"):
        read_all(path, "tfrecord", compression="SNAPPY")


@pytest.mark.parametrize("compression", ["SNAPPY", "ZSTD", "ZLIB", "GZIP"])
def test_bytes_that_are_not_compressed(tmp_path, compression):
    for content in (b"x" * 100, b"\xff\x06\x00\x00sNaPpY" + bytes(50), struct.pack(">I", 5) + b"\xff\xff\xff\xff\x0f"):
        path = damaged(tmp_path, lambda _, content=content: content)
        with pytest.raises(CorruptFileError, match=path):
            read_all(path, "tfrecord", compression=compression)


@pytest.mark.parametrize("compression", [None, "SNAPPY", "ZSTD", "ZLIB", "GZIP"])
def test_mutations_give_records_or_a_plain_error(tmp_path, compression):
    draw = random.Random(5)
    path = tmp_path / "a"
    for framing in FRAMINGS:
        write_file(path, made_records(20), framing, compression)
        good = path.read_bytes()
        for _ in range(150 if compression is None else 30):
            content = bytearray(good)
            for _ in range(draw.randint(1, 4)):
                content[draw.randrange(len(content))] = draw.randrange(256)
            at = draw.randrange(len(content))
            if draw.random() < 0.3:
                content[at : at + 8] = struct.pack("<Q", draw.choice((0, 2**30, 2**63, 2**64 - 1, 0xFEFEFEFE)))
            path.write_bytes(content[: draw.choice((len(content), at))])
            try:
                read_all(str(path), framing, compression=compression)
            except CorruptFileError as error:
                assert str(path) in str(error)
            read_all(str(path), framing, compression=compression, on_error="skip")
