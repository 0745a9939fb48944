"""Table files: the specified bytes, equal bytes for equal rows, and refusal of everything else."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from monolith._core import native
from monolith.embedding import (
    AdagradOptimizer,
    Fp16Compressor,
    MomentumOptimizer,
    Optimizer,
    Segment,
    SgdOptimizer,
    Table,
    TableConfig,
)
from monolith.errors import CorruptFileError
from tests.embedding.written_hash import hash_of

HEADER = struct.Struct("<8sHHI3Q10Iq")
FOOTER = struct.Struct("<QQII8s")
CRC_TABLE: list[int] = []
for byte in range(256):
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    CRC_TABLE.append(byte)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def make(dim: int = 2, optimizer: Optimizer | None = None, **settings: object) -> Table:
    segments = (Segment(dim, optimizer or AdagradOptimizer(learning_rate=0.1)),)
    return Table(TableConfig(**({"name": "movie", "segments": segments} | settings)))  # type: ignore[arg-type]


def trained(num_ids: int = 300, **settings: object) -> Table:
    table = make(**settings)  # type: ignore[arg-type]
    ids = torch.arange(num_ids) * 7919 - num_ids
    gradients = torch.randn(num_ids, table.dim, generator=torch.Generator().manual_seed(0))
    table.apply_gradients(ids, gradients, time=50, global_step=7)
    return table


def contents(table: Table) -> list[tuple[list[int], list[int], bytes]]:
    parts = (table.native.read_rows(number) for number in range(native.NUM_SUB_TABLES))
    return [(ids.tolist(), last_seen.tolist(), rows.tobytes()) for ids, last_seen, rows in parts]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file of a small table."""
    path = tmp_path_factory.mktemp("saved") / "t"
    return Path(trained(40).save(path)[0]).read_bytes()


def refused(tmp_path: Path, data: bytes, error: type[Exception] = CorruptFileError) -> str:
    """Restore `data`, which must fail, name the file and leave the table as it was; returns the message."""
    path = tmp_path / "t-00000-of-00001"
    path.write_bytes(data)
    table = trained(5)
    before = contents(table)
    with pytest.raises(error) as raised:
        table.restore(tmp_path / "t")
    assert contents(table) == before
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_the_bytes_are_as_specified(tmp_path: Path) -> None:
    """Reads a file with nothing but docs/formats.md."""
    table = trained(300)
    (path,) = table.save(tmp_path / "t", plan_hash=11, generation=12, epoch=13)
    data = Path(path).read_bytes()
    header = HEADER.unpack_from(data)
    assert header[:7] == (b"MONOTBL\n", 2, 0, 0x01020304, 11, 12, 13)
    *fields, schema_bytes, crc, max_step = header[7:]
    # max_time; shard, num_shards; first and last bucket; bytes of weights and of state; serving
    assert fields == [50, 0, 1, 0, 1024, 8, 8, 0]
    assert max_step == 7
    schema = data[88 : 88 + schema_bytes]
    assert crc == crc32c(data[:76] + data[80:88] + schema)
    assert json.loads(schema)["segments"][0] == {
        "dim": 2,
        "optimizer": "adagrad",
        "hyper_parameters": {"initial_accumulator_value": pytest.approx(0.1), "weight_decay_factor": 0.0},
        "initializer": "zeros",
        "compressor": "fp32",
    }
    index_offset, num_rows, index_crc, footer_crc, end = FOOTER.unpack(data[-32:])
    assert (num_rows, end) == (300, b"MONOEND\n")
    assert footer_crc == crc32c(data[-32:-12])
    index = data[index_offset:-32]
    assert len(index) == 1024 * 16
    assert index_crc == crc32c(index)
    rows: dict[int, list[float]] = {}
    offset = 88 + schema_bytes
    for bucket, (begin, count) in enumerate(struct.iter_unpack("<QQ", index)):
        assert begin == offset
        if count == 0:
            continue
        assert struct.unpack_from("<II", data, offset) == (bucket, count)
        ids = np.frombuffer(data, "<i8", count, offset + 8)
        last_seen = np.frombuffer(data, "<u4", count, offset + 8 + 8 * count)
        floats = np.frombuffer(data, "<f4", 4 * count, offset + 8 + 12 * count).reshape(count, 4)
        end_of_block = offset + 8 + 28 * count
        assert struct.unpack_from("<I", data, end_of_block)[0] == crc32c(data[offset:end_of_block])
        assert ids.tolist() == sorted(ids.tolist(), key=hash_of)
        assert [native.bucket_of_id(id_) for id_ in ids.tolist()] == [bucket] * count
        assert set(last_seen.tolist()) == {50}
        rows.update(zip(ids.tolist(), floats.tolist(), strict=True))
        offset = end_of_block + 4
    assert offset == index_offset
    assert torch.equal(table.lookup(torch.tensor(list(rows))), torch.tensor(list(rows.values()))[:, :2])


def test_a_bucket_of_more_than_4096_rows_is_several_blocks(tmp_path: Path) -> None:
    crowd = [id_ for id_ in range(10_000_000, 10_000_000 + 1024 * 4400) if native.bucket_of_id(id_) == 77][:4200]
    table = make(1, SgdOptimizer())
    ids = torch.tensor(crowd)
    table.assign(ids, ids.float().view(-1, 1))
    table.save(tmp_path / "t")
    other = make(1, SgdOptimizer())
    assert other.restore(tmp_path / "t") == 4200
    assert contents(other) == contents(table)


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    table = trained()
    other = make()
    other.assign(torch.arange(5000), torch.ones(5000, 2))  # another history: other rows came and went
    other.erase(torch.arange(5000))
    table.save(tmp_path / "a", num_shards=2)
    other.restore(tmp_path / "a", clear=False)
    other.save(tmp_path / "b", num_shards=2)
    table.save(tmp_path / "c", num_shards=2)
    for shard in ("-00000-of-00002", "-00001-of-00002"):
        first = (tmp_path / f"a{shard}").read_bytes()
        assert first == (tmp_path / f"b{shard}").read_bytes() == (tmp_path / f"c{shard}").read_bytes()


@pytest.mark.parametrize("num_shards", [1, 2, 5, 300])
def test_any_number_of_shards_restores_the_same(tmp_path: Path, num_shards: int) -> None:
    table = trained(3000)
    paths = table.save(tmp_path / "t", num_shards=num_shards)
    assert sorted(map(str, tmp_path.iterdir())) == paths
    other = make()
    assert other.restore(tmp_path / "t") == 3000
    assert contents(other) == contents(table)


def test_an_empty_table_restores_as_empty(tmp_path: Path) -> None:
    make().save(tmp_path / "t")
    table = trained()
    assert table.restore(tmp_path / "t") == 0
    assert len(table) == 0


def test_a_serving_table_restores_its_compressed_rows(tmp_path: Path) -> None:
    def serving() -> Table:
        segments = (Segment(3, SgdOptimizer(), compressor=Fp16Compressor()),)
        return make(segments=segments, serving=True)

    table = serving()
    table.assign(torch.arange(50), torch.randn(50, 3, generator=torch.Generator().manual_seed(1)))
    table.save(tmp_path / "t")
    other = serving()
    other.restore(tmp_path / "t")
    assert contents(other) == contents(table)


def test_every_flipped_byte_is_noticed(tmp_path: Path, saved: bytes) -> None:
    places = {*range(0, 120), *range(120, len(saved), 97), *range(len(saved) - 40, len(saved))}
    for place in sorted(places):
        data = bytearray(saved)
        data[place] ^= 0x41
        message = refused(tmp_path, bytes(data))
        assert "at byte" in message or "format version" in message


def test_every_truncation_is_noticed(tmp_path: Path, saved: bytes) -> None:
    for length in {
        0,
        1,
        79,
        80,
        87,
        88,
        111,
        112,
        113,
        119,
        120,
        *range(0, len(saved), 501),
        len(saved) - 32,
        len(saved) - 1,
    }:
        assert "at byte" in refused(tmp_path, saved[:length])
    assert "at byte" in refused(tmp_path, saved + b"\0")


def with_header(data: bytes, **fields: int) -> bytes:
    names = ["magic", "major", "minor", "endian", "plan", "generation", "epoch", "max_time", "shard", "num_shards"]
    names += ["first", "last", "weight", "state", "serving", "schema", "crc", "max_step"]
    values = dict(zip(names, HEADER.unpack_from(data), strict=True)) | fields
    header = HEADER.pack(*values.values())
    schema = data[88 : 88 + 4096][: HEADER.unpack_from(data)[-3]]
    return header[:76] + struct.pack("<I", crc32c(header[:76] + header[80:] + schema)) + header[80:] + data[88:]


def with_index(data: bytes, change: Callable[[list[int]], None]) -> bytes:
    """Change the numbers of the index (offset, count, offset, ...) and make the checksums right again."""
    index_offset, num_rows, *_ = FOOTER.unpack(data[-32:])
    numbers = list(struct.unpack(f"<{1024 * 2}Q", data[index_offset:-32]))
    change(numbers)
    index = struct.pack(f"<{1024 * 2}Q", *numbers)
    footer = struct.pack("<QQI", index_offset, num_rows, crc32c(index))
    return data[:index_offset] + index + footer + struct.pack("<I", crc32c(footer)) + b"MONOEND\n"


def with_footer(data: bytes, index_offset: int | None = None, num_rows: int | None = None) -> bytes:
    offset, rows, index_crc, *_ = FOOTER.unpack(data[-32:])
    start = struct.pack(
        "<QQI", offset if index_offset is None else index_offset, rows if num_rows is None else num_rows, index_crc
    )
    return data[:-32] + start + struct.pack("<I", crc32c(start)) + b"MONOEND\n"


@pytest.mark.parametrize(
    "fields",
    [
        {"first": 5, "last": 4},
        {"last": 1025},
        {"last": 0xFFFFFFFF},
        {"first": 0xFFFFFFFF, "last": 0xFFFFFFFF},
        {"first": 1024},
        {"shard": 1},
        {"num_shards": 2},
        {"endian": 0x04030201},
        {"major": 0},
        {"major": 3},
        {"schema": 0xFFFFFFFF},
        {"schema": 1 << 20},
        {"max_step": -1},
        {"major": 1, "minor": 0},
    ],
    ids=str,
)
def test_hostile_headers(tmp_path: Path, saved: bytes, fields: dict[str, int]) -> None:
    refused(tmp_path, with_header(saved, **fields))


@pytest.mark.parametrize("fields", [{"weight": 0xFFFFFFFC}, {"weight": 0, "state": 0}, {"state": 4}], ids=str)
def test_headers_of_other_rows(tmp_path: Path, saved: bytes, fields: dict[str, int]) -> None:
    assert "bytes (weights + optimizer state)" in refused(tmp_path, with_header(saved, **fields), ValueError)


@pytest.mark.parametrize("number", [2**64 - 1, 2**64 - 4, 2**64 - 8, 2**63, 2**32, 0, 80])
def test_hostile_offsets(tmp_path: Path, saved: bytes, number: int) -> None:
    index_offset = FOOTER.unpack(saved[-32:])[0]
    numbers = struct.unpack("<2048Q", saved[index_offset:-32])
    used = next(bucket for bucket in range(1024) if numbers[2 * bucket + 1] > 0)

    def change(numbers: list[int]) -> None:
        numbers[2 * used] = number

    message = refused(tmp_path, with_index(saved, change))
    assert ("a block lies outside the file" in message) == (number > len(saved))


@pytest.mark.parametrize("number", [2**64 - 1, 2**63, 2**32, 4096, 5])
def test_hostile_counts(tmp_path: Path, saved: bytes, number: int) -> None:
    for bucket in (0, 1023, next(b for b in range(1024) if native.bucket_of_id(-40) == b)):

        def change(numbers: list[int], bucket: int = bucket) -> None:
            numbers[2 * bucket + 1] = number

        refused(tmp_path, with_index(saved, change))
    refused(tmp_path, with_footer(saved, num_rows=number))


@pytest.mark.parametrize("number", [2**64 - 1, 2**64 - 32, 0, 80, 10**6])
def test_hostile_footers(tmp_path: Path, saved: bytes, number: int) -> None:
    refused(tmp_path, with_footer(saved, index_offset=number))


@pytest.mark.parametrize("schema", [b"", b"{", b"[]", b'{"segments": 3}', b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_hostile_schemas(tmp_path: Path, schema: bytes) -> None:
    data = Path(make().save(tmp_path / "empty")[0]).read_bytes()
    *fields, schema_bytes, _, max_step = HEADER.unpack_from(data)
    index_offset = 88 + schema_bytes
    header = HEADER.pack(*fields, len(schema), 0, max_step)
    crc = crc32c(header[:76] + header[80:] + schema)
    header = header[:76] + struct.pack("<I", crc) + header[80:]
    index = struct.pack("<QQ", 88 + len(schema), 0) * 1024
    footer = struct.pack("<QQI", 88 + len(schema), 0, crc32c(index))
    assert data[index_offset:-32].count(struct.pack("<Q", index_offset)) == 1024
    refused(tmp_path, header + schema + index + footer + struct.pack("<I", crc32c(footer)) + b"MONOEND\n")


def test_files_of_rows_made_differently(tmp_path: Path) -> None:
    trained().save(tmp_path / "t")
    for table, what in (
        (make(3), "3 x adagrad"),
        (make(4, SgdOptimizer()), "4 x sgd"),  # as wide as two floats and their Adagrad state
        (make(2, MomentumOptimizer()), "2 x momentum"),
    ):
        with pytest.raises(ValueError, match=rf"t-00000-of-00001 has rows of \['2 x adagrad'\].*{what}"):
            table.restore(tmp_path / "t")
        assert len(table) == 0
    other = make(2, AdagradOptimizer(learning_rate=0.7, weight_decay_factor=0.1), name="other", seed=4)
    assert other.restore(tmp_path / "t") == 300


def test_missing_mixed_and_renamed_shards(tmp_path: Path) -> None:
    table = trained()
    with pytest.raises(FileNotFoundError, match="t-00000-of"):
        table.restore(tmp_path / "t")
    table.save(tmp_path / "t", num_shards=3)
    middle = tmp_path / "t-00001-of-00003"
    kept = middle.read_bytes()
    middle.unlink()
    with pytest.raises(ValueError, match="shard 1 doesn't show up"):
        table.restore(tmp_path / "t")
    middle.write_bytes((tmp_path / "t-00000-of-00003").read_bytes())
    with pytest.raises(CorruptFileError, match="t-00001-of-00003 says it is shard 0 of 3, not 1 of 3"):
        table.restore(tmp_path / "t")
    trained().save(tmp_path / "u", num_shards=3, epoch=2)
    middle.write_bytes((tmp_path / "u-00001-of-00003").read_bytes())
    with pytest.raises(CorruptFileError, match="t-00001-of-00003 and .*t-00000-of-00003 are not of one save"):
        table.restore(tmp_path / "t")
    middle.write_bytes(kept)
    (tmp_path / "t-00000-of-00002").write_bytes(kept)
    with pytest.raises(ValueError, match=r"several saves: counts \[2, 3\]"):
        table.restore(tmp_path / "t")
    (tmp_path / "t-00000-of-00002").rename(tmp_path / "t-00003-of-00003")
    with pytest.raises(ValueError, match="shard 3 exceeds 3"):
        table.restore(tmp_path / "t")
    (tmp_path / "t-00003-of-00003").rename(tmp_path / "t-tmp")
    assert table.restore(tmp_path / "t") == 300


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_a_folder_that_cannot_be_written(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match=rf"cannot create .*{folder}/t-0000\d-of-00003.tmp"):
        trained().save(tmp_path / folder / "t", num_shards=3)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_save_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    table = trained()
    paths = [Path(path) for path in table.save(tmp_path / "t", num_shards=3)]
    before = [path.read_bytes() for path in paths]
    blocked = tmp_path / "t-00001-of-00003.tmp"
    blocked.mkdir()
    table.assign(torch.arange(9), torch.zeros(9, 2))
    with pytest.raises(OSError, match="t-00001-of-00003.tmp"):
        table.save(tmp_path / "t", num_shards=3)
    assert [path.read_bytes() for path in paths] == before
    blocked.rmdir()
    assert sorted(tmp_path.iterdir()) == paths
    table.save(tmp_path / "t", num_shards=3)
    assert [path.read_bytes() for path in paths] != before


def test_names_with_special_characters(tmp_path: Path) -> None:
    table = trained()
    table.save(tmp_path / "t[1]*?")
    assert make().restore(tmp_path / "t[1]*?") == 300
    with pytest.raises(FileNotFoundError):
        make().restore(tmp_path / "t1*?")
