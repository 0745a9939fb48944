"""Texts that became ids are in the file, each once, whatever happens to it."""

import logging

import pytest

import monolith as mono
from monolith.data import Schema, TFRecordWriter
from monolith.data.files import RecordFile
from monolith.features import hash_bytes, ids_of_texts
from monolith.features.kept_strings import KeptStrings, keep_strings
from monolith.protos.tf_example_pb2 import Example


def texts_in(path):
    return sorted(RecordFile(str(path)))


def test_every_text_is_written_once(tmp_path):
    path = tmp_path / "strings.tfrecord"
    with keep_strings(path):
        ids_of_texts(["a", "b", "a"])
        assert texts_in(path) == [b"a", b"b"]  # before anything uses the ids
        ids_of_texts(["b", "c"])
    with keep_strings(path):
        ids_of_texts(["c", "d"])
    ids_of_texts(["not kept"])
    assert texts_in(path) == [b"a", b"b", b"c", b"d"]
    kept = KeptStrings.read(path)
    assert len(kept) == 4
    assert [kept.text(hash_bytes(text)) for text in (b"a", b"d", b"e")] == ["a", "d", None]


def test_native_parsers_keep_texts_too(tmp_path):
    path = tmp_path / "strings.tfrecord"
    (tmp_path / "a.csv").write_text('user,genres\nu1,Action|Comedy\n"u,2",\n')
    example = Example()
    example.features.feature["user"].bytes_list.value.append(b"u3")
    example.features.feature["item"].int64_list.value.append(196)
    with TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(example.SerializeToString())
    with keep_strings(path):
        list(mono.data.csv(tmp_path / "a.csv", user="hash", genres="hash[]"))
        list(mono.data.tfrecord(str(tmp_path / "a.tfrecord"), batch_size=2).parse(user="hash", item="hash"))
    assert texts_in(path) == sorted([b"u1", b"u,2", b"Action", b"Comedy", b"u3", b"196"])


def test_a_torn_end_is_cut_off(tmp_path, caplog):
    path = tmp_path / "strings.tfrecord"
    with keep_strings(path):
        ids_of_texts(["a", "b"])
    path.write_bytes(path.read_bytes() + b"\x05\0\0\0torn")
    assert KeptStrings.read(path).text(hash_bytes(b"b")) == "b"
    with caplog.at_level(logging.WARNING), keep_strings(path):
        ids_of_texts(["b", "c"])
    assert "cut off" in caplog.text
    assert texts_in(path) == [b"a", b"b", b"c"]


def test_what_is_kept_is_bounded(tmp_path):
    path = tmp_path / "strings.tfrecord"
    with keep_strings(path, max_strings=100):
        ids_of_texts(map(str, range(1000)))
        ids_of_texts(["x" * 1025])
    assert len(KeptStrings.read(path)) == 100


def test_bytes_that_are_no_text_are_shown(tmp_path):
    path = tmp_path / "strings.tfrecord"
    with keep_strings(path):
        list(mono.data.arrays({"user": [b"\xff\x00"]}, schema=Schema.of(user="hash")))
    assert KeptStrings.read(path).text(hash_bytes(b"\xff\x00")) == "\\xff\x00"


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(IsADirectoryError), keep_strings(tmp_path):
        pass
