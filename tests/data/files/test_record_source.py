"""Batches of record files: where they are cut, who gets them, and that a position is exact."""

import io
import json
import sys

import fsspec
import pytest

from monolith.data import Pipeline, Schema, assert_resume_is_exact
from monolith.data.files import PbFraming, RecordFileSource, TFRecordFraming
from tests.data.files.made_files import FRAMINGS, batch_records, framing_name, made_records, write_file

SIZES = (10, 0, 7, 4, 1, 13)


def make_files(folder, framing=None, sizes=SIZES, compression=None):
    return [
        write_file(folder / f"part-{i}", made_records(size, seed=i), framing or TFRecordFraming(), compression)
        for i, size in enumerate(sizes)
    ]


def names(source):
    return [(batch.partition.rsplit("-", 1)[1], batch.first, batch.last) for batch in source]


def test_batches_end_at_multiples_and_with_the_file(tmp_path):
    source = RecordFileSource(make_files(tmp_path), batch_size=4)
    batches = list(source)
    assert [(batch.partition[-1], batch.first, batch.last) for batch in batches] == [
        *[("0", 0, 4), ("0", 4, 8), ("0", 8, 10)],
        *[("2", 0, 4), ("2", 4, 7)],
        ("3", 0, 4),
        ("4", 0, 1),
        *[("5", 0, 4), ("5", 4, 8), ("5", 8, 12), ("5", 12, 13)],
    ]
    for batch in batches:
        seed = int(batch.partition[-1])
        assert batch_records(batch) == made_records(SIZES[seed], seed)[batch.first : batch.last]
    assert source.schema == Schema.of(record="bytes")
    assert list(source) == []


def test_batches_that_are_kept_stay_as_they_were(tmp_path):
    # Large enough for memory to be used again, by the next batch and by the next file; the first records are small.
    files, written = [], []
    for number in range(3):
        records = [bytes([number, index % 251]) * (1 if index < 3 else 2_000) for index in range(50)]
        files.append(write_file(tmp_path / f"part-{number}", records, TFRecordFraming()))
        written += records
    source = RecordFileSource(files, batch_size=20)
    kept = list(source)
    assert [record for batch in kept for record in batch_records(batch)] == written
    del kept
    source.restore(RecordFileSource(files, batch_size=20).state())
    assert [record for batch in source for record in batch_records(batch)] == written


def test_the_column_of_data_source_keys(tmp_path):
    framing = PbFraming(lagrangex_header=True)
    source = RecordFileSource(make_files(tmp_path, framing), framing=framing, batch_size=4)
    assert source.schema == Schema.of(record="bytes", data_source_key="int64")
    assert next(iter(source)).columns["data_source_key"].tolist() == [0] * 4


@pytest.mark.parametrize("compression", ["NO", "SNAPPY", "ZSTD", "ZLIB", "GZIP"])
@pytest.mark.parametrize("framing", FRAMINGS, ids=framing_name)
def test_resume_is_exact(tmp_path, framing, compression):
    files = make_files(tmp_path, framing, (5, 0, 7), compression)

    def make(num_shards=1, index=0):
        source = RecordFileSource(files, framing=framing, compression=compression, batch_size=3)
        return source.shard(num_shards, index)

    assert_resume_is_exact(make)
    assert_resume_is_exact(lambda: make(3, 2))
    assert_resume_is_exact(lambda: make(4, 1))
    assert_resume_is_exact(lambda: make(2, 0).shard(2, 1))


@pytest.mark.parametrize("cycle_length, block_length", [(2, 1), (3, 2), (99, 1)])
@pytest.mark.parametrize("num_shards", [1, 2, 7])
def test_resume_is_exact_when_files_take_turns(tmp_path, cycle_length, block_length, num_shards):
    files = make_files(tmp_path)

    def make(index):
        source = RecordFileSource(files, batch_size=2, cycle_length=cycle_length, block_length=block_length)
        return source.shard(num_shards, index)

    for index in range(min(num_shards, 2)):
        assert_resume_is_exact(lambda index=index: make(index))
    whole = names(RecordFileSource(files, batch_size=2))
    assert sorted(name for index in range(num_shards) for name in names(make(index))) == sorted(whole)


def test_files_take_turns(tmp_path):
    files = make_files(tmp_path, sizes=(4, 1, 2, 3))
    source = RecordFileSource(files, batch_size=1, cycle_length=2, block_length=2)
    assert [name for name, _, _ in names(source)] == list("0010022333")


def test_a_stopped_iteration_goes_on(tmp_path):
    files = make_files(tmp_path)
    source = RecordFileSource(files, batch_size=4)
    got = []
    while batch := next(iter(source), None):
        got.append((batch.partition[-1], batch.first, batch.last))
    assert got == names(RecordFileSource(files, batch_size=4))


@pytest.mark.parametrize("num_shards", [2, 3, 6, 7, 20])
def test_shards_share_nothing_and_are_the_whole(tmp_path, num_shards):
    whole = RecordFileSource(make_files(tmp_path), batch_size=2)
    parts = [names(whole.shard(num_shards, index)) for index in range(num_shards)]
    assert sorted(sum(parts, [])) == sorted(names(whole))
    nested = [names(whole.shard(num_shards, 1).shard(3, index)) for index in range(3)]
    assert sorted(sum(nested, [])) == sorted(parts[1])


def test_files_are_dealt_out_where_there_are_enough(tmp_path):
    source = RecordFileSource(make_files(tmp_path), batch_size=4)
    assert {name for name, _, _ in names(source.shard(3, 2))} == {"2", "5"}
    # One file, two parts: every other batch.
    assert [first for _, first, _ in names(source.shard(6, 5).shard(2, 1))] == [4, 12]
    with pytest.raises(ValueError, match="shard 2 of 2"):
        source.shard(2, 2)


@pytest.mark.parametrize("num_shards", [1, 2])
def test_from_a_place_inside_a_batch_the_cuts_are_those_of_every_run(tmp_path, num_shards):
    """A position taken with another batch size lies inside a batch: one is shorter, the next are as ever."""
    files = make_files(tmp_path, sizes=(10,))
    earlier = RecordFileSource(files, batch_size=3)
    assert next(iter(earlier)).last == 3
    batches = []
    for index in range(num_shards):
        source = RecordFileSource(files, batch_size=4).shard(num_shards, index)
        source.restore(earlier.state())
        batches += source
    assert sorted(names(batches)) == [("0", 3, 4), ("0", 4, 8), ("0", 8, 10)]
    records = [record for batch in sorted(batches, key=lambda one: one.first) for record in batch_records(batch)]
    assert records == made_records(10, seed=0)[3:]


def test_a_position_seeks_in_plain_files(tmp_path):
    path = write_file(tmp_path / "a", made_records(100), TFRecordFraming())
    source = RecordFileSource([path], batch_size=10)
    iterator = iter(source)
    next(iterator), next(iterator)
    state = source.state()
    # The beginning is gone: only one who seeks does not notice.
    content = bytearray(open(path, "rb").read())
    content[: state["open"][0]["byte"]] = bytes(state["open"][0]["byte"])
    open(path, "wb").write(content)
    resumed = RecordFileSource([path], batch_size=10)
    resumed.restore(json.loads(json.dumps(state)))
    assert [batch.first for batch in resumed] == list(range(20, 100, 10))


def test_remote_files():
    filesystem = fsspec.filesystem("memory")
    files = [f"memory://source-test/part-{i}" for i in range(2)]
    for i, file in enumerate(files):
        write_file(file, made_records(5, i), TFRecordFraming(), "GZIP" if i else None)
        if i:
            filesystem.mv(file, file + ".gz")
    files[1] += ".gz"
    assert_resume_is_exact(lambda: RecordFileSource(files, batch_size=2))
    assert sum(len(batch) for batch in RecordFileSource(files, batch_size=2)) == 10
    with pytest.raises(FileNotFoundError, match="memory://source-test/none"):
        list(RecordFileSource("memory://source-test/none", batch_size=2))


def test_standard_input(tmp_path, monkeypatch):
    data = open(write_file(tmp_path / "a", made_records(5), TFRecordFraming()), "rb").read()

    def make():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return RecordFileSource("", batch_size=2)

    assert [batch.name for batch in make()] == ["[0, 2)", "[2, 4)", "[4, 5)"]
    assert_resume_is_exact(make)


def test_it_begins_a_pipeline(tmp_path):
    source = RecordFileSource(make_files(tmp_path), batch_size=4)
    kept = Pipeline(source).filter(lambda batch: batch.columns["record"].row_lengths() > 0)
    assert sum(len(batch) for batch in kept) == sum(len([r for r in made_records(size) if r]) for size in SIZES)


def test_a_state_of_others_is_refused(tmp_path):
    files = make_files(tmp_path)
    source = RecordFileSource(files, batch_size=4, cycle_length=2)
    state = source.state()
    for wrong in (
        {},
        {"0": 3},
        {**state, "turn": 2},
        {**state, "turn": -1},
        {**state, "in_block": "1"},
        {**state, "open": [{"file": files[0], "record": 1.5, "byte": 0}]},
        {**state, "open": [{"record": 1}]},
        {**state, "open": 3},
    ):
        with pytest.raises(ValueError, match="no position"):
            source.restore(wrong)
    with pytest.raises(ValueError, match="elsewhere.*6 files"):
        source.restore({**state, "next": "elsewhere"})
    assert source.state() == state


def test_wrong_arguments_are_named(tmp_path):
    (path,) = make_files(tmp_path, sizes=(1,))
    for wrong, message in (
        ({"batch_size": 0}, "batch_size"),
        ({"cycle_length": 0}, "cycle_length"),
        ({"on_error": "ignore"}, "ignore"),
        ({"framing": "avro"}, "avro"),
        ({"compression": "LZ4"}, "LZ4"),
    ):
        with pytest.raises(ValueError, match=message):
            RecordFileSource(path, **{"batch_size": 1, **wrong})
    with pytest.raises(ValueError, match="at least one"):
        RecordFileSource([], batch_size=1)
    with pytest.raises(ValueError, match="part-0.*twice"):
        RecordFileSource([path, path], batch_size=1)
    with pytest.raises(FileNotFoundError, match="missing"):
        RecordFileSource([path, str(tmp_path / "missing")], batch_size=1)
