"""Parquet and Arrow files that were damaged where pyarrow does not look: refused, and the process lives on."""

import numpy as np
import pytest

from monolith.data import Schema
from monolith.data.columnar import ArrowSource, ColumnError, ParquetSource
from monolith.errors import CorruptFileError
from tests.checkpoint.forked import in_child

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

from tests.data.columnar.made_files import events_of, write_arrow, write_parquet, write_stream  # noqa: E402

ARROW = {"file": write_arrow, "stream": write_stream}
MARK = 0x1234_5678_9ABC


def numbers(*values):
    """Return numbers as a column of offsets or codes has them in a file."""
    return np.array(values, np.int32).tobytes()


LISTS = pa.array([[7] * 1234, [8] * 3000])
TEXT = pa.array(["a" * 1234, "b" * 3000])
CODES = pa.DictionaryArray.from_arrays(pa.array([3, 1, 3, 2], pa.int32()), pa.array(["a", "b", "c", "d"]))
DAMAGES = {
    "a list that ends behind its values": (LISTS, numbers(0, 1234, 4234), numbers(0, 1234, 1 << 30)),
    "a list that ends before it begins": (LISTS, numbers(0, 1234, 4234), numbers(0, 4235, 4234)),
    "a list that begins before its values": (LISTS, numbers(0, 1234, 4234), numbers(-99, 1234, 4234)),
    "text that ends behind its bytes": (TEXT, numbers(0, 1234, 4234), numbers(0, 1234, 1 << 30)),
    "text that ends before it begins": (TEXT, numbers(0, 1234, 4234), numbers(0, 4235, 4234)),
    "a code behind the dictionary": (CODES, numbers(3, 1, 3, 2), numbers(3, 1, 1 << 28, 2)),
    "a code before the dictionary": (CODES, numbers(3, 1, 3, 2), numbers(3, 1, -1, 2)),
}


@pytest.mark.parametrize("form", ARROW)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_arrays_are_refused_and_end_no_process(tmp_path, form, damage):
    path = tmp_path / "one.data"
    array, whole, damaged = DAMAGES[damage]
    ARROW[form](pa.table({"column": array}), path)
    assert len(events_of(ArrowSource(path, 2))) == len(array)
    content = path.read_bytes()
    assert content.count(whole) == 1
    path.write_bytes(content.replace(whole, damaged))

    def read():
        with pytest.raises(CorruptFileError, match=r"one\.data is damaged behind row 0"):
            list(ArrowSource(path, 2))

    assert in_child(read) == ""  # pyarrow would end the process, or read what lies behind


def test_columns_that_nobody_asks_for_may_be_damaged(tmp_path):
    array, whole, damaged = DAMAGES["a list that ends before it begins"]
    write_arrow(pa.table({"uid": [1, 2], "tags": array}), tmp_path / "one.data")
    content = (tmp_path / "one.data").read_bytes()
    (tmp_path / "one.data").write_bytes(content.replace(whole, damaged))
    assert [event["uid"] for event in events_of(ArrowSource(tmp_path / "one.data", columns=["uid"]))] == [1, 2]


@pytest.mark.parametrize("write", [write_arrow, write_stream, write_parquet])
def test_text_need_not_be_text(tmp_path, write):
    words = pa.array([b"\xff\xfe", b"\xfd\xfc"]).view(pa.string())
    write(pa.table({"word": words, "coded": words.dictionary_encode()}), tmp_path / "one.data")
    events = events_of((ParquetSource if write is write_parquet else ArrowSource)(tmp_path / "one.data"))
    assert events == [{"word": [0xFF, 0xFE], "coded": [0xFF, 0xFE]}, {"word": [0xFD, 0xFC], "coded": [0xFD, 0xFC]}]


@pytest.mark.parametrize("write", [write_arrow, write_stream, write_parquet])
def test_columns_of_one_name_are_refused(tmp_path, write):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["uid", "uid", "mov"])
    write(table, tmp_path / "one.data")
    source = ParquetSource if write is write_parquet else ArrowSource
    for choice in ({}, {"columns": ["uid"]}, {"schema": Schema.of(uid="int64")}):
        with pytest.raises(ColumnError, match="several columns 'uid'"):
            list(source(tmp_path / "one.data", **choice))
    with pytest.raises(ColumnError, match="no column at all"):
        write(pa.table({}), tmp_path / "none.data")
        source(tmp_path / "none.data")


def marked_parquet(path, **options):
    """Write a file in whose only page a number can be found, and return its bytes."""
    table = pa.table({"uid": pa.array([1, MARK, 3], pa.int64())})
    pa.parquet.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False, **options)
    return bytearray(path.read_bytes())


def test_a_page_that_does_not_fit_its_checksum_is_refused(tmp_path):
    path = tmp_path / "one.parquet"
    content = marked_parquet(path, write_page_checksum=True)
    assert [event["uid"] for event in events_of(ParquetSource(path))] == [1, MARK, 3]
    content[content.index(MARK.to_bytes(8, "little"))] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"one\.parquet is damaged behind row 0: .*CRC"):
        list(ParquetSource(path))


def test_a_parquet_file_without_checksums_is_read(tmp_path):
    path = tmp_path / "one.parquet"
    content = marked_parquet(path)
    content[content.index(MARK.to_bytes(8, "little"))] ^= 1
    path.write_bytes(content)
    assert [event["uid"] for event in events_of(ParquetSource(path))] == [1, MARK ^ 1, 3]


def footers(path):
    """Change one bit of every byte of a file's footer in turn; yield the place."""
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for place in range(begin, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 3]) + content[place + 1 :])
        yield place


def test_damaged_footers_are_refused_or_harmless(tmp_path):
    """Neither rows nor list items get lost, columns do not change places, and nothing ends the process."""
    path = tmp_path / "one.parquet"
    table = pa.table({"a": [1, 2, 3], "tags": [[1, 2], [], [3]]})
    pa.parquet.write_table(table, path, row_group_size=2, write_page_checksum=True, store_schema=False)
    schema = Schema.of(a="int64", tags="int64[]")
    expected = events_of(ParquetSource(path, 2, schema))

    def read():
        num_refused = 0
        for place in footers(path):
            try:
                assert events_of(ParquetSource(path, 2, schema)) == expected, place
            except (CorruptFileError, ColumnError):
                num_refused += 1
        assert num_refused > 100

    assert in_child(read) == ""


def test_rows_that_a_row_group_lacks_are_missed(tmp_path):
    path = tmp_path / "one.parquet"
    pa.parquet.write_table(pa.table({"uid": [7, 8, 9]}), path, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    # Page headers have no checksum, and pyarrow takes a page of fewer values for the end.
    content[content.index(bytes([0x15, 6, 0x15]), 4) + 1] = 4
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match="chunk 0 has 2 rows, the footer says 3"):
        list(ParquetSource(path))


def test_chunks_of_other_columns_are_refused(tmp_path):
    path = tmp_path / "one.parquet"
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False, "store_schema": False}
    pa.parquet.write_table(pa.table({"aa": [1, 2], "bb": [3, 4]}), path, **options)
    first, second = (pa.parquet.read_metadata(path).row_group(0).column(place).data_page_offset for place in (0, 1))
    content = path.read_bytes()
    for old, new, problem in (
        # In the footer, numbers of one byte are doubled; what the second chunk says becomes what the first one says.
        (b"\x19\x18\x02bb", b"\x19\x18\x02aa", "a column chunk of 'bb' says it is 'aa'"),
        (bytes([0x26, 2 * second]), bytes([0x26, 2 * first]), "two column chunks have the same bytes"),
    ):
        place = content.rindex(old)
        path.write_bytes(content[:place] + new + content[place + len(old) :])
        with pytest.raises(CorruptFileError, match=problem):
            list(ParquetSource(path, schema=Schema.of(aa="int64", bb="int64")))


def test_list_items_that_a_page_header_leaves_out_are_missed(tmp_path):
    path = tmp_path / "one.parquet"
    table = pa.table({"tags": [[7, 8], [], [9, 10, 11]]})
    pa.parquet.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    # Page headers have no checksum. Six values, as a zigzag number behind field 5 (data page), field 1.
    place = content.index(bytes([0x15, 12, 0x15]), 4)
    content[place + 1] = 10
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match="column 'tags' has 5 values, the footer says 6"):
        list(ParquetSource(path))
