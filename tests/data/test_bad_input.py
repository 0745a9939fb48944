"""Bad input, as a user meets it: an error with file and place, or with on_error="skip" a counted skip."""

import struct

import pytest

import monolith as mono
from monolith.data.files import PbFraming, TFRecordWriter
from monolith.data.parse import BadRecordError, MissingFeatureError, TfExampleParser
from monolith.errors import CorruptFileError
from tests.data.parse.made_records import tf_example

RECORDS = [tf_example(uid=[number], label=[float(number % 2)]) for number in range(6)]
FRAME_BYTES = 16 + len(RECORDS[0])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "clicks.tfrecord"
    with TFRecordWriter(str(path)) as writer:
        writer.write_all(RECORDS)
    assert path.stat().st_size == 6 * FRAME_BYTES
    return path


def read(path, **options):
    pipeline = mono.data.tfrecord(str(path), batch_size=2, **options)
    uids = [uid for batch in pipeline.parse(uid="int64", label="float32") for uid in batch.columns["uid"].tolist()]
    return uids, pipeline.source.num_skipped


def test_a_truncated_file(file):
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(CorruptFileError, match=rf"clicks\.tfrecord: truncated: the record at byte {5 * FRAME_BYTES} "):
        read(file)
    with pytest.warns(UserWarning, match="the rest of the file is left out"):
        assert read(file, on_error="skip") == ([0, 1, 2, 3, 4], 1)


def test_a_wrong_checksum(file):
    data = bytearray(file.read_bytes())
    data[3 * FRAME_BYTES + 15] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptFileError, match=rf"clicks\.tfrecord: the record at byte {3 * FRAME_BYTES} does not fit"):
        read(file)
    assert read(file, on_error="skip") == ([0, 1, 2, 4, 5], 1)


@pytest.mark.parametrize("length", [1 << 40, (1 << 64) - 1])
def test_a_huge_length_in_a_file(tmp_path, length):
    path = tmp_path / "bomb.pb"
    path.write_bytes(struct.pack("<Q", length) + b"x" * 100)

    def source(**options):
        return mono.data.pb_files(str(path), batch_size=2, framing=PbFraming(), **options)

    with pytest.raises(CorruptFileError, match=rf"bomb\.pb, byte 0: a length of {length} bytes is over the limit"):
        list(source())
    skipping = source(on_error="skip")
    with pytest.warns(UserWarning, match="the rest of the file is left out"):
        assert list(skipping) == []
    assert skipping.source.num_skipped == 1


def test_a_huge_length_in_a_record(file):
    # Features of 2**34 bytes, of which there are two.
    with TFRecordWriter(str(file)) as writer:
        writer.write_all([RECORDS[0], b"\x0a\x80\x80\x80\x80\x40xx", RECORDS[2]])
    with pytest.raises(
        BadRecordError, match="record 1, byte 1: expected 17179869184 bytes of content, 2 are"
    ) as raised:
        read(file)
    assert raised.value.__notes__ == [f"in batch {file}[0, 2)"]
    skipping = mono.data.tfrecord(str(file), batch_size=2).parse(on_error="skip", uid="int64")
    assert [batch.columns["uid"].tolist() for batch in skipping] == [[0], [2]]
    assert skipping.source.num_skipped == 1


def test_an_unknown_feature(file):
    parser = TfExampleParser({"uid": "int64", "uidd": "int64"}, required=["uidd"])
    with pytest.raises(MissingFeatureError, match="no record of this batch has the required uidd") as raised:
        list(mono.data.tfrecord(str(file), batch_size=4).parse(parser))
    assert raised.value.__notes__ == [f"in batch {file}[0, 4)"]


def test_a_label_of_the_wrong_type(file):
    with TFRecordWriter(str(file)) as writer:
        writer.write_all([RECORDS[0], tf_example(uid=[7], label=[b"yes"])])
    with pytest.raises(BadRecordError, match=r"record 1, byte \d+: .*'label'.*a bytes_list") as raised:
        read(file)
    assert raised.value.__notes__ == [f"in batch {file}[0, 2)"]
    skipping = mono.data.tfrecord(str(file), batch_size=2).parse(on_error="skip", uid="int64", label="float32")
    assert [batch.columns["uid"].tolist() for batch in skipping] == [[0]]
    assert skipping.source.num_skipped == 1


def test_a_missing_file(tmp_path, file):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        mono.data.tfrecord(str(tmp_path / "nothing-here.tfrecord"), batch_size=2)
    source = mono.data.tfrecord(str(file), batch_size=2)
    file.unlink()  # after the source was made
    with pytest.raises(FileNotFoundError, match=r"clicks\.tfrecord"):
        list(source)
