"""Bytes of record files: what is written, and that it is read back, whole and in order."""

import gzip
import io
import struct
import sys
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolith.data.data_source import data_source_key
from monolith.data.files import (
    CompressType,
    FeaturePruningType,
    PbFileWriter,
    PbFraming,
    PbType,
    RecordFile,
    TFRecordFraming,
    TFRecordWriter,
    lg_header,
    record_file,
    sort_header,
)
from monolith.tensors import Ragged
from tests.data.files.made_files import FRAMINGS, framing_name, made_records, write_file

COMPRESSIONS = ["NO", "SNAPPY", "ZSTD", "ZLIB", "GZIP"]


def crc32c(data):
    """CRC-32C bit by bit, as its definition has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def tf_record(payload):
    def masked(data):
        crc = crc32c(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def read_bytes(tmp_path, data, framing="tfrecord", **options):
    path = tmp_path / "given"
    path.write_bytes(data)
    with RecordFile(str(path), framing, **options) as file:
        return list(file)


def test_the_checksum_of_the_test_is_the_known_one():
    assert crc32c(b"123456789") == 0xE3069283


def test_tf_record_bytes_of_an_empty_record(tmp_path):
    # The checksum of nothing is 0, which the mask makes a282ead8.
    path = write_file(tmp_path / "a", [b""], TFRecordFraming())
    assert open(path, "rb").read().hex() == "000000000000000029039807" + "d8ea82a2"


@pytest.mark.parametrize("size", [0, 1, 3, 7, 8, 9, 11, 12, 15, 16, 383, 384, 385, 1000, 6200])
def test_tf_record_bytes(tmp_path, size):
    payload = bytes(i * 7 % 256 for i in range(size))
    path = write_file(tmp_path / "a", [payload, b"abc"], TFRecordFraming())
    assert open(path, "rb").read() == tf_record(payload) + tf_record(b"abc")
    assert read_bytes(tmp_path, tf_record(payload) * 2) == [payload] * 2


PB_BYTES = {
    "size-only": u64(3),
    "has_sort_id": u64(0, 3),
    "kafka_dump": u64(0, 3),
    "kafka_dump_prefix": u64(0, 0, 3),
    "has_sort_id-kafka_dump": u64(0, 0, 3),
    "has_sort_id-kafka_dump_prefix": u64(0, 0, 0, 3),
    "kafka_dump-kafka_dump_prefix": u64(0, 0, 0, 3),
    "has_sort_id-kafka_dump-kafka_dump_prefix": u64(0, 0, 0, 0, 3),
    "lagrangex_header": u64(1, 3),  # The low byte: INSTANCE.
}


@pytest.mark.parametrize("framing", FRAMINGS[1:], ids=framing_name)
def test_pb_bytes(tmp_path, framing):
    path = write_file(tmp_path / "a", [b"abc"], framing)
    header = PB_BYTES[framing_name(framing)]
    assert open(path, "rb").read() == header + b"abc"
    if not framing.lagrangex_header:
        zeros = sort_header(framing.has_sort_id, framing.kafka_dump, framing.kafka_dump_prefix)
        assert zeros + u64(3) == header


def test_headers_that_others_write(tmp_path):
    sort_id = PbFraming()
    assert read_bytes(tmp_path, u64(4) + b"sort" + u64(2) + b"hi" + u64(0, 0), sort_id) == [b"hi", b""]
    prefix = PbFraming(kafka_dump_prefix=True, kafka_dump=True)
    # The prefix is the length of the sort id; then one with a prefix of 0 and what follows it.
    data = u64(4) + b"sort" + u64(99, 2) + b"hi" + u64(0, 77, 1) + b"s" + u64(99, 3) + b"two"
    assert read_bytes(tmp_path, data, prefix) == [b"hi", b"two"]


def test_data_source_keys(tmp_path):
    assert data_source_key("abc") == 96354 << 8  # Java: "abc".hashCode() == 96354
    assert data_source_key("hello") == (99162322 << 8) % 2**32
    assert data_source_key("polygenelubricants") == 0  # hashCode() is -2**31
    framing = PbFraming(lagrangex_header=True)
    with PbFileWriter(str(tmp_path / "a"), framing, pb_type=PbType.EXAMPLE) as writer:
        writer.write(b"one", data_source_key("abc"))
        writer.write(b"two")
    assert (tmp_path / "a").read_bytes()[:8] == lg_header("abc", PbType.EXAMPLE) == u64(96354 << 8 | 3)
    with RecordFile(str(tmp_path / "a"), framing) as file:
        assert file.read(5).data_source_keys.tolist() == [96354 << 8, 0]
    # The high half of the header says nothing.
    data = u64(0xFFFF_FFFF_8000_0004, 0)
    (tmp_path / "b").write_bytes(data)
    with RecordFile(str(tmp_path / "b"), framing) as file:
        assert file.read(5).data_source_keys.tolist() == [0x8000_0000]


def test_a_key_needs_a_place(tmp_path):
    with PbFileWriter(str(tmp_path / "a")) as writer:
        with pytest.raises(ValueError, match="lagrangex_header=True"):
            writer.write(b"", data_source_key("abc"))
        with pytest.raises(ValueError, match="0x1"):
            writer.write(b"", 1)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("framing", FRAMINGS, ids=framing_name)
def test_round_trip(tmp_path, framing, compression, monkeypatch):
    monkeypatch.setattr(record_file, "BUFFER_BYTES", 64)
    records = made_records(200)
    path = write_file(tmp_path / "a", records, framing, compression)
    with RecordFile(path, framing, compression=compression) as file:
        assert list(file) == records


@settings(max_examples=60)
@given(
    records=st.lists(st.binary(max_size=300), max_size=30),
    framing=st.sampled_from(FRAMINGS),
    compression=st.sampled_from(COMPRESSIONS),
    buffer_bytes=st.integers(1, 200),
    count=st.integers(1, 20),
)
def test_any_records_in_any_pieces(tmp_path_factory, records, framing, compression, buffer_bytes, count):
    path = write_file(tmp_path_factory.getbasetemp() / "any", records, framing, compression)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_file, "BUFFER_BYTES", buffer_bytes)
        with RecordFile(path, framing, compression=compression) as file:
            got = []
            while (piece := file.read(count)) is not None:
                assert piece.num_frames == min(count, len(records) - len(got))
                got += [bytes(row) for row in piece.payloads.to_list()]
    assert got == records


def test_records_longer_than_the_buffer_and_memory_that_is_used_again(tmp_path):
    records = [bytes([i]) * (i * 300_000) for i in range(6)]
    path = write_file(tmp_path / "a", records, TFRecordFraming())
    with RecordFile(path) as file:
        kept = [file.read(1) for _ in records]
    # Memory of a batch that is still held must not be given to another.
    assert [bytes(each.payloads.values.numpy()) for each in kept] == records


def test_standard_formats_of_others(tmp_path):
    inner = tf_record(b"abc") * 3
    for name, data in {"GZIP": gzip.compress(inner), "ZLIB": zlib.compress(inner)}.items():
        assert read_bytes(tmp_path, data, compression=name) == [b"abc"] * 3
    # Members one after the other, and the zeros that tapes leave.
    assert read_bytes(tmp_path, gzip.compress(inner) * 2 + bytes(512), compression="GZIP") == [b"abc"] * 6
    # TensorFlow's snappy blocks: big-endian length, then raw snappy; here one literal of 3 bytes.
    blocks = b"".join(struct.pack(">I", 2 + 3) + b"\x03\x08" + inner[at : at + 3] for at in range(0, 57, 3))
    assert read_bytes(tmp_path, blocks, compression="SNAPPY") == [b"abc"] * 3


@pytest.mark.parametrize("suffix, compression", [(".snappy", 2), (".zst", 3), (".zlib", 4), (".gz", 5), (".pb", 1)])
def test_the_suffix_tells_the_compression(tmp_path, suffix, compression):
    assert CompressType.of(None, "dir.gz/part" + suffix) == compression
    path = write_file(tmp_path / f"a{suffix}", [b"abc" * 100], TFRecordFraming())
    with RecordFile(path, compression=CompressType(compression)) as file:
        assert list(file) == [b"abc" * 100]


def test_names_and_numbers_of_the_original():
    assert {each.name: each.value for each in CompressType} == dict(UNKNOW=0, NO=1, SNAPPY=2, ZSTD=3, ZLIB=4, GZIP=5)
    assert {each.name: each.value for each in PbType} == dict(INSTANCE=1, EXAMPLEBATCH=2, EXAMPLE=3, PLAINTEXT=4)
    assert [each.value for each in FeaturePruningType] == [0, 1, 2]
    assert PbType.PLAINTEXT.to_name() == "plaintext"
    with pytest.raises(ValueError, match="LZ4.*SNAPPY"):
        CompressType.of("LZ4")


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in ("SNAPPY", "ZSTD"):
        with pytest.raises(ImportError, match="pip install pyarrow"):
            read_bytes(tmp_path, b"x", compression=name)
        with pytest.raises(ImportError, match="pip install pyarrow"):
            TFRecordWriter(str(tmp_path / "w"), compression=name)


def test_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tf_record(b"abc") * 3)))
    with RecordFile("") as file:
        assert list(file) == [b"abc"] * 3


def test_rows_of_a_batch_are_written_as_they_are(tmp_path):
    rows = Ragged.from_lists([[97, 98], [], [99]], torch.uint8)
    with TFRecordWriter(str(tmp_path / "new" / "a")) as writer:
        writer.write(b"first")
        writer.write_rows(rows)
        writer.flush()
        with RecordFile(str(tmp_path / "new" / "a")) as file:
            assert list(file) == [b"first", b"ab", b"", b"c"]
    writer.close()
