"""Whole chains, from files to batches: the same rows in every run, from every position."""

import json

import pytest
import torch

import monolith as mono
from monolith.data import CriteoEvents, Pipeline, Schema, TFRecordWriter, assert_resume_is_exact
from monolith.data.columnar.column_error import ColumnError
from monolith.data.columnar.json_records import JsonParser
from monolith.data.parse import INVALID_LABEL, BadRecordError, records_of
from monolith.protos.tf_example_pb2 import Example
from tests.checkpoint.forked import in_child


def serialized(uid, tags, label):
    example = Example()
    example.features.feature["uid"].int64_list.value.append(uid)
    example.features.feature["tags"].bytes_list.value.extend(tags)
    example.features.feature["label"].float_list.value.append(label)
    return example.SerializeToString()


@pytest.fixture
def files(tmp_path):
    for part in range(3):
        with TFRecordWriter(str(tmp_path / f"part-{part}.tfrecord")) as writer:
            writer.write_all([serialized(100 * part + i, [b"a", b"b"][: i % 3], float(i % 2)) for i in range(7 + part)])
    return str(tmp_path / "part-{INT(0,2)}.tfrecord")


def chain(files):
    return (
        mono.data.tfrecord(files, batch_size=4)
        .parse(uid="int64", tags="int64[]", label="float32")
        .filter(lambda batch: batch.columns["uid"] % 5 != 0)
        .shuffle(window=6, batch_size=3, seed=1)
        .repeat(2)
        .prefetch(2)
    )


def test_a_chain_gives_every_row_once_per_epoch_and_resumes_exactly(files):
    uids = torch.cat([batch.columns["uid"] for batch in chain(files)]).tolist()
    wanted = [100 * part + i for part in range(3) for i in range(7 + part) if (100 * part + i) % 5]
    assert sorted(uids) == sorted(wanted * 2)
    assert uids != sorted(uids)
    assert_resume_is_exact(lambda: chain(files))
    assert_resume_is_exact(lambda: chain(files).shard(2, 1))


def test_shards_of_a_chain_are_the_whole(files):
    plain = mono.data.tfrecord(files, batch_size=4).parse(uid="int64")
    whole = sorted(int(uid) for batch in plain for uid in batch.columns["uid"])
    parts = [int(uid) for i in range(2) for batch in plain.shard(2, i) for uid in batch.columns["uid"]]
    assert sorted(parts) == whole


def test_a_bad_record_names_its_file_and_batch(tmp_path):
    with TFRecordWriter(str(tmp_path / "x.tfrecord")) as writer:
        writer.write_all([serialized(1, [], 0.0), b"\xff\xff"])
    pipeline = mono.data.tfrecord(str(tmp_path / "x.tfrecord"), batch_size=4).parse(uid="int64")
    with pytest.raises(BadRecordError, match="record 1") as raised:
        list(pipeline)
    assert "x.tfrecord[0, 2)" in raised.value.__notes__[0]
    skipping = mono.data.tfrecord(str(tmp_path / "x.tfrecord"), batch_size=4).parse(on_error="skip", uid="int64")
    assert [batch.columns["uid"].tolist() for batch in skipping] == [[1]]


def test_json_records():
    rows = [{"uid": 1, "tags": [1, 2], "more": {}}, {"uid": 2, "tags": []}]
    texts = [json.dumps(rows[0], indent=1).encode(), json.dumps(rows[1]).encode()]
    parser = JsonParser(Schema.of(uid="int64", tags="int64[]"))
    columns, kept = parser(records_of(texts))
    assert (columns["uid"].tolist(), columns["tags"].to_list(), kept) == ([1, 2], [[1, 2], []], None)
    bad = [texts[0], b'{"uid": "x"}', b"[1]", texts[1], b'{"tags": []}']
    with pytest.raises(ColumnError, match=r"record 1 of the batch: .*it is b'\{\"uid\": \"x\"\}'"):
        parser(records_of(bad))
    skipping = JsonParser(Schema.of(uid="int64", tags="int64[]"), on_error="skip")
    columns, kept = skipping(records_of(bad))
    assert (columns["uid"].tolist(), kept.tolist(), skipping.num_skipped) == ([1, 2], [0, 3], 3)


@pytest.mark.parametrize("form", ["json", "tf_example", "example", "example_batch", "instance"])
def test_batches_and_files_of_bad_records_alone_are_passed(form, tmp_path):
    for number in range(2):
        with TFRecordWriter(str(tmp_path / f"{number}.tfrecord")) as writer:
            writer.write_all([b"\xff\xff"] * 5)
    columns = {"uid": "int64", "tags": "int64[]", "dense": "float32[3]", "query": "bytes"}
    pipeline = mono.data.tfrecord(f"{tmp_path}/*.tfrecord", batch_size=2).parse(form, on_error="skip", **columns)
    assert list(pipeline) == []
    assert pipeline.source.num_skipped == 10
    pipeline = mono.data.tfrecord(f"{tmp_path}/*.tfrecord", batch_size=2).parse(form, on_error="skip", **columns)
    later_steps = pipeline.filter(lambda batch: batch.columns["uid"] > 0).rebatch(3).shuffle(window=4, batch_size=2)
    assert list(later_steps.prefetch(2)) == []


def test_a_batch_of_bad_json_between_good_ones(tmp_path):
    with TFRecordWriter(str(tmp_path / "x.tfrecord")) as writer:
        writer.write_all([b'{"uid": 1}', b'{"uid": 2}', b"null", b"", b'{"uid": 5} null', b'{"uid": 6}'])

    def read():
        source = mono.data.tfrecord(str(tmp_path / "x.tfrecord"), batch_size=2)
        pipeline = source.parse("json", on_error="skip", uid="int64")
        assert [batch.columns["uid"].tolist() for batch in pipeline] == [[1, 2], [6]]
        assert pipeline.source.num_skipped == 3

    assert in_child(read) == ""  # pyarrow would end the process


def test_wrong_chains_say_what_to_do(files):
    records = mono.data.tfrecord(files, batch_size=4)
    with pytest.raises(ValueError, match="name the columns to parse"):
        records.parse()
    with pytest.raises(ValueError, match="records are tf_example, .*got 'avro'"):
        records.parse("avro", uid="int64")
    with pytest.raises(ValueError, match="drop uid"):
        records.parse(JsonParser(Schema.of(a="int64")), uid="int64")
    with pytest.raises(ValueError, match="no column 'record' of bytes to parse; its columns are uid"):
        list(mono.data.arrays({"uid": [1]}).parse(uid="int64"))


def test_a_model_trains_from_files_of_made_up_clicks():
    events = mono.data.synthetic(CriteoEvents(3, num_ids=2000), batch_size=64, count=256)
    assert isinstance(events, Pipeline)
    assert sum(len(batch) for batch in events) == 256
    assert events.schema.types["dense"].width == 13


def test_records_are_those_of_training_until_a_function_changes_their_columns(files):
    source = mono.data.tfrecord(files, batch_size=4).parse("example", uid="int64", tags="int64[]", label="float32")
    kept = source.filter(lambda batch: batch.columns["uid"] > 0).shuffle(window=4, batch_size=2)
    assert source.schema.records == kept.schema.records
    assert source.schema.records["format"] == "example"
    assert {one.pop("name"): one for one in source.schema.records["columns"]} == {
        "uid": {"dtype": "int64", "source": "line_id"},
        "tags": {"dtype": "int64[]"},
        "label": {"dtype": "float32", "source": "label", "missing": INVALID_LABEL},
    }
    for given in (None, source.schema, source.schema.with_columns(more="int64")):
        assert source.map(lambda batch: batch, given).schema.records is None
    assert mono.data.arrays({"uid": [1]}).schema.records is None


def test_after_a_function_nobody_knows_what_a_missing_value_reads_as():
    source = mono.data.arrays({"year": [1990, None]}, schema=Schema.of(year="int64"), fill_missing={"year": 1990})
    kept = source.filter(lambda batch: batch.columns["year"] > 0).shuffle(window=4, batch_size=2)
    assert source.schema.missing == kept.schema.missing == {"year": 1990}
    assert source.map(lambda batch: batch).schema.missing is None
