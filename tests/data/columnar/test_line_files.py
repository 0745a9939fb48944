"""CSV and JSON lines give the lines that were written, positions in them are exact, and bad lines are named."""

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path

import pytest
import torch

from monolith.data import OffsetError, Schema, assert_resume_is_exact
from monolith.data.columnar import ColumnError, CsvSource, JsonLinesSource
from monolith.data.columnar.lines import line_blocks
from monolith.errors import CorruptFileError
from tests.checkpoint.forked import in_child

pytest.importorskip("pyarrow")

from tests.data.columnar.made_files import (  # noqa: E402  it needs pyarrow
    SIZES,
    events_of,
    made_table,
    plain,
    write_csv,
    write_json,
)

CSV = Schema.of(uid="int64", tags="int64[]", price="float32", query="bytes")
JSON = CSV.with_columns(scores="float32[]", dense="float32[3]")
FORMATS = {"csv": (CsvSource, write_csv, CSV), "json": (JsonLinesSource, write_json, JSON)}


class Form:
    def __init__(self, name, packed):
        self.make, self.write, self.schema = FORMATS[name]
        self.suffix = f".{name}.gz" if packed else f".{name}"
        self.first_line = 1 if name == "csv" else 0

    def source(self, files, batch_size=512, schema=None, **options):
        return self.make(files, schema or self.schema, batch_size=batch_size, **options)

    def put(self, path, content):
        path.write_bytes(gzip.compress(content) if self.suffix.endswith(".gz") else content)

    def lines(self, uids):
        """Return a file of one column, of texts."""
        if self.make is CsvSource:
            return b"uid,more\n" + b"".join(uid + b",0\n" for uid in uids)
        return b"".join(b'{"uid": ' + uid + b"}\n" for uid in uids)


@pytest.fixture(params=[("csv", False), ("csv", True), ("json", False), ("json", True)], ids=str)
def form(request):
    return Form(*request.param)


@pytest.fixture
def pattern(form, tmp_path):
    for seed, rows in enumerate(SIZES):
        path = tmp_path / f"part-{seed}{form.suffix}"
        form.write(made_table(rows, seed), path)
        form.put(path, path.read_bytes())
    return f"{tmp_path}/part*"


UID = Schema.of(uid="int64")


def test_events_are_those_written(form, pattern):
    rows = [row for seed, size in enumerate(SIZES) for row in made_table(size, seed).to_pylist()]
    if form.make is CsvSource:
        rows = [row | {"query": row["query"] + ', "x"'} for row in rows]  # quotes and delimiters within quotes
    expected = [{name: plain(row[name]) for name in form.schema.names} for row in rows]
    assert events_of(form.source(pattern, 7)) == expected


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_resuming_is_exact(form, pattern, batch_size):
    assert_resume_is_exact(lambda: form.source(pattern, batch_size))
    assert_resume_is_exact(lambda: form.source(pattern, batch_size).shard(2, 1))
    assert_resume_is_exact(lambda: form.source(pattern, batch_size).shard(5, 0))


@pytest.mark.parametrize("splits", [(2,), (5,), (3, 2)])
def test_shards_share_nothing_and_are_the_whole(form, pattern, splits):
    parts = [form.source(pattern, 3)]
    for split in splits:
        parts = [part.shard(split, index) for part in parts for index in range(split)]
    names = [batch.name for part in parts for batch in part]
    assert sorted(names) == sorted(batch.name for batch in form.source(pattern, 3))


def test_lines_across_blocks_of_reading(form, pattern, monkeypatch):
    whole = events_of(form.source(pattern, 5))
    monkeypatch.setattr(line_blocks, "_READ_BYTES", 7)
    assert events_of(form.source(pattern, 5)) == whole
    assert_resume_is_exact(lambda: form.source(pattern, 5))


def test_blank_lines_and_other_line_ends(form, tmp_path):
    path = tmp_path / f"a{form.suffix}"
    lines = form.lines([b"1", b"2", b"3"]).removesuffix(b"\n").split(b"\n")
    form.put(path, b"\n".join([*lines[:-2], b"\r", b"", lines[-2] + b"\r", b"   ", b"", lines[-1]]))
    assert [event["uid"] for event in events_of(form.source(path, 2, UID))] == [1, 2, 3]
    assert_resume_is_exact(lambda: form.source(path, 2, UID))


def test_a_bad_line_is_named(form, tmp_path):
    path = tmp_path / f"a{form.suffix}"
    for bad in (b"x", b"1.5", b"[", b"99999999999999999999", b"\xff"):
        form.put(path, form.lines([b"7"] * 10 + [bad] + [b"8"] * 10))
        source = form.source(path, 4, UID)
        for _ in range(2):  # and is met again by who goes on
            with pytest.raises(ColumnError, match=rf"a\.\w+.*: line {11 + form.first_line}: ") as caught:
                list(source)
        assert 'on_error="skip"' in str(caught.value)
        assert source.state()["row"] == 8


def test_bad_lines_are_skipped_and_counted(form, tmp_path):
    path = tmp_path / f"a{form.suffix}"
    texts = [str(i).encode() for i in range(20)]
    for place in (3, 8, 9, 10, 11, 19):
        texts[place] = b"bad"
    form.put(path, form.lines(texts))
    source = form.source(path, 4, UID, on_error="skip")
    batches = list(source)
    assert [(b.first, b.columns["uid"].tolist()) for b in batches] == [
        (0, [0, 1, 2]),
        (4, [4, 5, 6, 7]),
        (12, [12, 13, 14, 15]),
        (16, [16, 17, 18]),
    ]
    assert source.num_skipped == 6
    assert source.shard(2, 0).num_skipped == 0
    assert_resume_is_exact(lambda: form.source(path, 4, UID, on_error="skip"))
    with pytest.raises(ValueError, match="on_error"):
        form.source(path, 4, UID, on_error="ignore")


def test_missing_values(form, tmp_path):
    path = tmp_path / f"a{form.suffix}"
    form.put(path, form.lines([b"1", b"" if form.make is CsvSource else b"null", b"3"]))
    with pytest.raises(ColumnError, match=rf"line {2 + form.first_line}: column 'uid' has no value.*fill_missing"):
        list(form.source(path, 4, UID))
    assert [e["uid"] for e in events_of(form.source(path, 4, UID, fill_missing={"uid": -1}))] == [1, -1, 3]


def test_a_file_that_is_not_there_or_ends_too_soon(form, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        form.source(tmp_path / "none.csv")
    path = tmp_path / f"a{form.suffix}"
    form.put(path, form.lines([b"1"] * 50))
    source = form.source(path, 10, UID)
    next(iter(source))
    source.restore(source.state())
    form.put(path, form.lines([b"1"]))
    with pytest.raises(OffsetError, match=r"the file ends before it"):
        list(source)


@pytest.mark.parametrize("name", ["csv", "json"])
def test_a_damaged_archive_is_refused(name, tmp_path):
    form = Form(name, packed=True)
    path = tmp_path / f"a{form.suffix}"
    form.put(path, form.lines([str(i * 7919).encode() for i in range(1000)]))
    content = path.read_bytes()
    for damaged in (b"not packed at all", content[: len(content) // 2], content[:500] + bytes(50) + content[550:]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match=r"a\.\w+\.gz is damaged"):
            list(form.source(path, 4, UID))


def test_restoring_seeks(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(b"uid\n" + b"12345678\n" * 1000)
    source = CsvSource(path, UID, batch_size=10)
    iterator = iter(source)
    for _ in range(90):
        next(iterator)
    assert source.state() == {"file": str(path), "row": 900, "line": 901, "byte": 4 + 9 * 900}
    # What lies before is not even looked at.
    path.write_bytes(b"uid\n" + b"#" * 8100 + path.read_bytes()[8104:])
    resumed = CsvSource(path, UID, batch_size=10)
    resumed.restore(source.state())
    assert [batch.first for batch in resumed] == list(range(900, 1000, 10))


def test_csv_without_a_line_of_names(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("1\t0.5\ta\n0\t1.5\tb c\n")
    options = {"delimiter": "\t", "column_names": ["__LABEL__", "I1", "C1"]}
    (batch,) = CsvSource(path, Schema.of(C1="bytes", label="float32"), **options)
    assert batch.columns["C1"].to_list() == [[97], [98, 32, 99]] and batch.columns["label"].tolist() == [1, 0]
    with pytest.raises(ColumnError, match=r"a\.tsv: there is no column 'C2'; there are __LABEL__, I1, C1"):
        list(CsvSource(path, Schema.of(C2="bytes"), **options))


def test_csv_lines_of_the_wrong_width_and_lists(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2|3\n1\n1,2|3,4\n1,2|x\n2,\n")
    schema = Schema.of(a="int64", b="int64[]")
    with pytest.raises(ColumnError, match=r"line 3: Expected 2 columns, got 1"):
        list(CsvSource(path, schema))
    source = CsvSource(path, schema, on_error="skip")
    (batch,) = source
    assert batch.columns["b"].to_list() == [[2, 3], []] and source.num_skipped == 3
    path.write_text("b\n1|2\n1|2|3\n")
    with pytest.raises(ColumnError, match="line 3: column 'b' has 3 values where the schema says 2"):
        list(CsvSource(path, Schema.of(b="int64[2]")))
    with pytest.raises(ValueError, match="delimiter"):
        CsvSource(path, schema, delimiter="|")
    path.write_text("\n")
    with pytest.raises(ColumnError, match="line 1 should name the columns"):
        list(CsvSource(path, schema))


def test_json_lines_with_what_is_no_object(tmp_path):
    path = Path(tmp_path, "a.jsonl")
    path.write_text('{"uid": 1} {"uid": 2}\n[1]\n{"uid": 3, "x": {"y": []}}\n{"uid": "4"}\n{\n')
    source = JsonLinesSource(path, UID, on_error="skip")
    (batch,) = source
    assert batch.columns["uid"].tolist() == [3] and source.num_skipped == 4
    assert batch.columns["uid"].dtype == torch.int64


@pytest.mark.parametrize("line", ["null", '{"uid": 1} null', "null null", ' null{"uid": 2}', "", "\0\0\0", "{", "}"])
def test_a_line_that_is_no_object_ends_neither_the_process_nor_the_reading(tmp_path, line):
    path = tmp_path / "a.jsonl"

    def read():
        for before, after in (("", ""), ('{"uid": 7}\n', ""), ("", '{"uid": 8}\n')):
            path.write_text(f"{before}{line}\n{after}")
            source = JsonLinesSource(path, UID, on_error="skip", fill_missing={"uid": 0})
            uids = [uid for batch in source for uid in batch.columns["uid"].tolist()]
            assert uids == [7] * bool(before) + [8] * bool(after)
            assert source.num_skipped == bool(line)

    assert in_child(read) == ""  # pyarrow would end the process


def test_objects_that_go_on_in_the_next_line_are_no_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    # Three lines and three objects, none of which is a line.
    path.write_text('{"uid": 1, "x":\n{}}{"uid": 2}{"uid": 3, "x":\n{}}\n')
    source = JsonLinesSource(path, UID, on_error="skip")
    assert list(source) == [] and source.num_skipped == 3


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zip"])
def test_wrong_checksums_of_archives_are_seen(tmp_path, suffix):
    text = b"".join(b'{"uid": %d}\n' % number for number in range(500))
    path = tmp_path / f"a.jsonl.{suffix}"
    if suffix == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.jsonl", text)
    else:
        path.write_bytes({"gz": gzip, "bz2": bz2, "xz": lzma}[suffix].compress(text))
    content = path.read_bytes()
    for place in range(0, len(content), max(len(content) // 60, 1)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        try:
            uids = [uid for batch in JsonLinesSource(path, UID) for uid in batch.columns["uid"].tolist()]
            assert uids == list(range(500))  # times and names of archives are no data
        except (CorruptFileError, ColumnError):
            pass
