"""Parquet and Arrow files give the rows that were written, and positions in them are exact."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from monolith.data import OffsetError, Schema, assert_resume_is_exact
from monolith.data.columnar import ArrowSource, ColumnError, ParquetSource
from monolith.data.columnar.arrow import arrow
from monolith.errors import CorruptFileError

pa = pytest.importorskip("pyarrow")

from tests.data.columnar.made_files import (  # noqa: E402  it needs pyarrow
    SIZES,
    events_of,
    made_table,
    plain,
    write_arrow,
    write_parquet,
    write_stream,
)

FORMATS = {
    "parquet": (ParquetSource, write_parquet),
    "arrow": (ArrowSource, write_arrow),
    "stream": (ArrowSource, write_stream),
}
ALL = {
    "uid": "int64",
    "price": "float32",
    "fid": "int64",
    "tags": "int64[]",
    "scores": "float32[]",
    "query": "bytes",
    "dense": "float32[3]",
    "city": "bytes",
    "label": "int64",
}


@pytest.fixture(params=FORMATS)
def form(request):
    return FORMATS[request.param]


@pytest.fixture
def pattern(form, tmp_path):
    for seed, rows in enumerate(SIZES):
        form[1](made_table(rows, seed), tmp_path / f"part-{seed}.data")
    return f"{tmp_path}/*.data"


def one_file(form, tmp_path, columns):
    path = tmp_path / "one.data"
    form[1](pa.table(columns), path)
    return str(path)


def test_rows_are_those_written(form, pattern):
    source = form[0](pattern, batch_size=7)
    assert dict(source.schema) == ALL
    expected = []
    for seed, rows in enumerate(SIZES):
        expected += [
            {name.strip("_").lower(): plain(value) for name, value in row.items()}
            for row in made_table(rows, seed).to_pylist()
        ]
    assert events_of(source) == expected


def test_batches_end_at_multiples_of_the_batch_size_in_each_file(form, pattern):
    batches = [(Path(b.partition).stem, b.first, b.last) for b in form[0](pattern, batch_size=10)]
    assert batches == [
        ("part-0", 0, 10),
        ("part-0", 10, 20),
        ("part-0", 20, 23),
        ("part-1", 0, 10),
        ("part-3", 0, 1),
    ]
    whole = [(Path(b.partition).stem, b.first) for b in form[0](pattern, batch_size=10, drop_remainder=True)]
    assert whole == [("part-0", 0), ("part-0", 10), ("part-1", 0)]


@pytest.mark.parametrize("batch_size", [1, 4, 5, 100])
def test_resuming_is_exact(form, pattern, batch_size):
    assert_resume_is_exact(lambda: form[0](pattern, batch_size))
    assert_resume_is_exact(lambda: form[0](pattern, batch_size).shard(2, 1))  # by file
    assert_resume_is_exact(lambda: form[0](pattern, batch_size).shard(5, 0))  # by batch


@pytest.mark.parametrize("splits", [(2,), (5,), (3, 2), (2, 4), (7, 2)])
def test_shards_share_nothing_and_are_the_whole(form, pattern, splits):
    parts = [form[0](pattern, 3)]
    for split in splits:
        parts = [part.shard(split, index) for part in parts for index in range(split)]
    names = [batch.name for part in parts for batch in part]
    assert sorted(names) == sorted(batch.name for batch in form[0](pattern, 3))


def test_short_files_are_spread_over_shards(form, tmp_path):
    for number in range(3):
        form[1](made_table(2, number), tmp_path / f"{number}.data")
    source = form[0](f"{tmp_path}/*.data", batch_size=2)
    assert [len(list(source.shard(4, index))) for index in range(4)] == [1, 1, 1, 0]


def test_a_broken_off_iteration_goes_on(form, pattern):
    source = form[0](pattern, 5)
    first = next(iter(source))
    rest = list(source)
    assert [first.name, *(batch.name for batch in rest)] == [batch.name for batch in form[0](pattern, 5)]
    assert list(source) == []


def test_a_schema_selects_orders_and_types(form, pattern):
    schema = Schema.of(label="float32", dense="float32[]", uid="float32")
    (first, *_) = form[0](pattern, 4, schema)
    assert list(first.columns) == ["label", "dense", "uid"]
    table = made_table(SIZES[0])
    assert first.columns["uid"].tolist() == table["uid"].to_pylist()[:4] and first.columns["uid"].dtype == torch.float32
    assert first.columns["dense"].to_list() == table["dense"].to_pylist()[:4]


def test_columns_select_without_a_schema(form, pattern):
    assert dict(form[0](pattern, columns=["__LABEL__", "uid"]).schema) == {"label": "int64", "uid": "int64"}
    with pytest.raises(ColumnError, match=r"part-0.*no column 'clicks'"):
        form[0](pattern, columns=["clicks"])
    with pytest.raises(ValueError, match="either"):
        form[0](pattern, 4, Schema.of(uid="int64"), columns=["uid"])


def test_old_ids_get_the_new_layout(form, tmp_path):
    old = [(slot << 54) | (slot * 1000) for slot in (0, 1, 5, 1023)]
    signed = np.array(old, np.uint64).view(np.int64)
    path = one_file(form, tmp_path, {"one": signed, "many": [signed[:2], signed[2:], [], signed[:1]]})
    (batch,) = form[0](path, fid_v1=["one", "many"])
    new = [(slot << 48) | (slot * 1000) for slot in (0, 1, 5, 1023)]
    assert batch.columns["one"].tolist() == new
    assert batch.columns["many"].to_list() == [new[:2], new[2:], [], new[:1]]
    with pytest.raises(ValueError, match="fid_v1 names 'two'"):
        form[0](path, fid_v1=["two"])


def test_times_are_whole_numbers(form, tmp_path):
    days = pa.array([1, 19_000], pa.date32())
    moments = pa.array([5, 1_700_000_000_000], pa.timestamp("ms"))
    (batch,) = form[0](one_file(form, tmp_path, {"day": days, "moment": moments}))
    assert batch.columns["day"].tolist() == [1, 19_000]
    assert batch.columns["moment"].tolist() == [5, 1_700_000_000_000]


def test_tensors_may_be_written_to(form, pattern):
    before = events_of(form[0](pattern, 4))
    for batch in form[0](pattern, 4):
        for column in batch.columns.values():
            getattr(column, "values", column).zero_() if not isinstance(column, torch.Tensor) else column.zero_()
    assert events_of(form[0](pattern, 4)) == before


def test_a_missing_value_is_named(form, tmp_path):
    values = list(range(12))
    values[9] = None
    path = one_file(form, tmp_path, {"uid": pa.array(values)})
    source = form[0](path, batch_size=2)
    for _ in range(2):  # and is met again, not passed, by who goes on
        with pytest.raises(ColumnError, match=r"one\.data: row 9: column 'uid' has no value.*fill_missing"):
            list(source)
    assert source.state()["row"] == 8
    assert events_of(form[0](path, 2, fill_missing={"uid": -1}))[9] == {"uid": -1}


def test_missing_values_of_lists_and_text(form, tmp_path):
    columns = {
        "tags": pa.array([[1, None], None, [3]], pa.list_(pa.int64())),
        "dense": pa.array([[1.0, 2.0], None, [None, 4.0]], pa.list_(pa.float32(), 2)),
        "query": pa.array(["a", None, ""]),
    }
    path = one_file(form, tmp_path, columns)
    for name, row in {"tags": 1, "dense": 1, "query": 1}.items():
        with pytest.raises(ColumnError, match=rf"row {row}: column '{name}' has no value"):
            list(form[0](path, columns=[name]))
    (batch,) = form[0](path, fill_missing={"tags": 7, "dense": 0.5, "query": "?"})
    assert batch.columns["tags"].to_list() == [[1, 7], [], [3]]
    assert batch.columns["dense"].tolist() == [[1, 2], [0.5, 0.5], [0.5, 4]]
    assert batch.columns["query"].to_list() == [[ord("a")], [ord("?")], []]
    items = one_file(form, tmp_path, {"tags": pa.array([[1], [], [2, None]], pa.list_(pa.int64()))})
    with pytest.raises(ColumnError, match="row 2: column 'tags' has no value.* in its list"):
        list(form[0](items))
    only = pa.array([[1], None], pa.list_(pa.int64()))
    (batch,) = form[0](one_file(form, tmp_path, {"tags": only}), fill_missing={"tags": [8, 9]})
    assert batch.columns["tags"].to_list() == [[1], [8, 9]]
    with pytest.raises(ValueError, match="fill_missing names other"):
        form[0](path, fill_missing={"other": 0})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"clicks": "int64"}, "no column 'clicks'"),
        ({"price": "int64"}, "'price' holds double.*say 'float32'"),
        ({"tags": "int64"}, "'tags' holds list.*say 'int64\\[\\]'"),
        ({"uid": "int64[]"}, "'uid' holds int32.*say 'int64'"),
        ({"query": "int64"}, "'query' holds string.*say 'bytes'"),
        ({"uid": "bytes"}, "'uid' holds int32"),
    ],
)
def test_what_a_file_does_not_hold_is_refused(form, pattern, schema, message):
    with pytest.raises(ColumnError, match=rf"part-0\.data.*{message}"):
        list(form[0](pattern, 4, Schema.of(**schema)))


def test_lists_of_another_length_than_said_are_named(form, tmp_path):
    path = one_file(form, tmp_path, {"tags": [[1, 2]] * 6 + [[1, 2, 3]] + [[1, 2]]})
    with pytest.raises(ColumnError, match="row 6: column 'tags' has 3 values where the schema says 2"):
        list(form[0](path, 3, Schema.of(tags="int64[2]")))


def test_a_later_file_of_another_type_is_named(form, tmp_path):
    form[1](pa.table({"uid": [1, 2]}), tmp_path / "a.data")
    form[1](pa.table({"uid": ["x"]}), tmp_path / "b.data")
    source = form[0](f"{tmp_path}/*.data", batch_size=2)
    with pytest.raises(ColumnError, match=r"b\.data: column 'uid' holds string"):
        list(source)


def test_what_no_column_can_hold_is_refused(form, tmp_path):
    path = one_file(form, tmp_path, {"uid": [1], "struct": [{"a": 1}]})
    with pytest.raises(ColumnError, match=r"column 'struct' holds struct.*columns="):
        form[0](path)
    assert events_of(form[0](path, columns=["uid"])) == [{"uid": 1}]


def test_files_that_are_not_there(form, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        form[0](tmp_path / "none.data")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        form[0](f"{tmp_path}/*.data")
    with pytest.raises(ValueError, match="no files"):
        form[0]([])


def test_a_file_of_something_else_is_refused(form, tmp_path):
    path = tmp_path / "one.data"
    for content in (b"", b"hello, this is no such file" * 10):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match="one.data"):
            form[0](path)


def test_a_file_cut_short_is_refused(form, tmp_path):
    path = tmp_path / "one.data"
    form[1](made_table(23), path)
    content = path.read_bytes()
    for size in (len(content) // 2, len(content) - 40):
        path.write_bytes(content[:size])
        with pytest.raises(CorruptFileError, match=r"one\.data"):
            list(form[0](path, 4))


def test_a_damaged_page_is_refused(tmp_path):
    path = tmp_path / "one.parquet"
    arrow("parquet").write_table(made_table(2000), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[100:140] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"one\.parquet is damaged behind row 0"):
        list(ParquetSource(path, 4))


def test_positions_of_other_files_are_refused(form, pattern, tmp_path):
    source = form[0](pattern, 4)
    with pytest.raises(OffsetError, match=r"lies in /elsewhere, .*part-0\.data to .*part-3\.data"):
        source.restore({"file": "/elsewhere", "row": 0})
    whole = {"file": source.files[0], "row": 4, "chunk": 1, "in_chunk": 0}
    source.restore(whole)
    for state in ({}, {"row": 3}, {"file": source.files[0], "row": 4}, whole | {"row": -1}, whole | {"chunk": "1"}):
        with pytest.raises(ValueError, match="the state of .* has 'file', 'row', 'chunk', 'in_chunk', got"):
            source.restore(state)
    state = source.state() | {"row": 1000, "chunk": 250, "in_chunk": 0}
    source.restore(state)
    with pytest.raises(OffsetError, match="row 1000, the file ends before it"):
        next(iter(source))


def test_files_that_come_up_later_do_not_invalidate_a_position(form, tmp_path):
    form[1](made_table(5), tmp_path / "a.data")
    source = form[0](f"{tmp_path}/*.data", batch_size=2)
    list(source)
    form[1](made_table(3, 1), tmp_path / "b.data")
    later = form[0](f"{tmp_path}/*.data", batch_size=2)
    later.restore(source.state())
    assert [(Path(b.partition).name, b.first) for b in later] == [("b.data", 0), ("b.data", 2)]


def test_a_column_without_any_value(form, tmp_path):
    path = one_file(form, tmp_path, {"uid": pa.nulls(2)})
    with pytest.raises(ColumnError, match="'uid' holds null"):
        form[0](path)
    for kind, value, expected in (("int64", 7, 7), ("float32[2]", 0.5, [0.5, 0.5]), ("bytes", "ab", [97, 98])):
        with pytest.raises(ColumnError, match="row 0: column 'uid' has no value"):
            list(form[0](path, 4, Schema.of(uid=kind)))
        assert events_of(form[0](path, 4, Schema.of(uid=kind), fill_missing={"uid": value})) == [{"uid": expected}] * 2


def test_without_pyarrow_the_command_is_named(monkeypatch, tmp_path):
    (tmp_path / "a.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'monolith-recsys\[columnar\]'"):
        ParquetSource(tmp_path / "a.parquet")


def test_restoring_reads_only_the_row_group(tmp_path, monkeypatch):
    path = tmp_path / "one.parquet"
    write_parquet(made_table(23), path)  # six row groups
    state = ParquetSource(path, 4).state() | {"row": 16, "chunk": 4, "in_chunk": 0}
    opened = []
    real = arrow("parquet").ParquetFile.iter_batches

    def spy(self, *args, row_groups, **options):
        opened.extend(row_groups)
        return real(self, *args, row_groups=row_groups, **options)

    monkeypatch.setattr(arrow("parquet").ParquetFile, "iter_batches", spy)
    source = ParquetSource(path, 4)
    source.restore(state)
    assert [batch.first for batch in source] == [16, 20]
    assert opened == [4, 5]
