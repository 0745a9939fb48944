"""Shards: every id belongs to one of them, whatever their number, and files of any number hold the same table."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding import AdagradOptimizer, Segment, Table, TableConfig
from monolith.embedding.hash_shards import MAX_SHARDS, shards_of_ids
from monolith.embedding.shard_files import (
    check_shard_files,
    find_shard_files,
    load_shard_files,
    reshard_files,
)
from monolith.errors import CorruptFileError, TableFullError
from tests.embedding.written_hash import hash_of

EXTREMES = [0, 1, -1, 2**63 - 1, -(2**63), 2**48, -(2**48)]
IDS = torch.tensor([*EXTREMES, *range(-1500, -1), *range(2, 1500)])


def make(dim: int = 2, **settings: object) -> Table:
    segments = (Segment(dim, AdagradOptimizer(learning_rate=0.1)),)
    return Table(TableConfig(name="movie", segments=segments, **settings))  # type: ignore[arg-type]


def filled(dim: int = 2) -> Table:
    table = make(dim)
    table.assign(IDS, torch.arange(len(IDS)).float().view(-1, 1).expand(-1, dim).contiguous(), time=9)
    return table


def ids_of(table: Table) -> list[int]:
    return [one for ids, _ in table.items() for one in ids.tolist()]


def bytes_of(basename: Path) -> list[bytes]:
    return [Path(path).read_bytes() for path in find_shard_files(str(basename))]


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7, 200, 256, 1000, 65_536])
def test_every_id_belongs_to_one_shard(num_shards: int) -> None:
    random = torch.randint(-(2**63), 2**63 - 1, (3000,), generator=torch.Generator().manual_seed(0))
    ids = torch.cat([IDS, random])
    shards = shards_of_ids(ids, num_shards).tolist()
    for one, shard in zip(ids.tolist(), shards, strict=True):
        # The range of the shard, and those of its neighbours begin where it ends.
        assert shard * 2**64 <= hash_of(one) * num_shards < (shard + 1) * 2**64
    assert 0 <= min(shards) and max(shards) < num_shards


@pytest.mark.parametrize("num_shards", [1, 2, 3, 200, 256, 1000])
def test_the_ids_of_all_shards_are_the_ids_of_the_table(num_shards: int) -> None:
    table = filled()
    shards = shards_of_ids(IDS, num_shards)
    for index in range(num_shards):
        found = [one for ids in table.ids((index, num_shards)) for one in ids.tolist()]
        assert sorted(found) == sorted(IDS[shards == index].tolist())


def test_a_shards_ids_are_found_without_reading_the_others() -> None:
    class Counted:
        def __init__(self, table: Table) -> None:
            self._native, self.read = table.native, list[int]()
            self.sub_tables_of = table.native.sub_tables_of

        def read_rows(self, sub_table: int) -> object:
            self.read.append(sub_table)
            return self._native.read_rows(sub_table)

    table = filled()
    table.native = counted = Counted(table)  # type: ignore[assignment]
    for index in range(1000):
        list(table.ids((index, 1000)))
    # One pass, and once more for each 256th that two shards have a part of.
    assert set(counted.read) == set(range(256))
    assert len(counted.read) == 1000 + 255 - 7  # 8 of the 1,000 begin where a 256th does


def test_there_are_no_ids_of_a_shard_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="there is no shard 2 of 2"):
        list(filled().ids((2, 2)))


@pytest.mark.parametrize("num_shards", [0, -1, 65_537])
def test_a_wrong_number_of_shards_is_named(tmp_path: Path, num_shards: int) -> None:
    filled().save(tmp_path / "t")
    for use in (
        lambda: shards_of_ids(IDS, num_shards),
        lambda: reshard_files(tmp_path / "t", tmp_path / "out", num_shards),
    ):
        with pytest.raises(ValueError, match=f"a table has 1 to 65536 shards, got {num_shards}"):
            use()
    assert MAX_SHARDS == 65_536


@pytest.mark.parametrize("num_files", [1, 3, 300])
def test_all_shards_together_are_the_table(tmp_path: Path, num_files: int) -> None:
    table = filled()
    table.save(tmp_path / "whole")
    paths = table.save(tmp_path / "t", num_shards=num_files)
    for num_shards in (2, 7, 200):
        together, part = make(), make()
        num_rows = 0
        for shard in range(num_shards):
            part.clear()
            num_rows += load_shard_files(part.native, paths, (shard, num_shards)).num_rows
            assert set(shards_of_ids(torch.tensor(ids_of(part)), num_shards).tolist()) <= {shard}
            load_shard_files(together.native, paths, (shard, num_shards))
        assert num_rows == len(IDS)
        together.save(tmp_path / "again")
        assert bytes_of(tmp_path / "again") == bytes_of(tmp_path / "whole")


def test_one_shard_of_65536_has_its_ids_alone(tmp_path: Path) -> None:
    paths = filled().save(tmp_path / "t", num_shards=3)
    shards = shards_of_ids(IDS, MAX_SHARDS)
    part = make()
    for shard in shards[:200].tolist():
        part.clear()
        load_shard_files(part.native, paths, (shard, MAX_SHARDS))
        assert sorted(ids_of(part)) == sorted(IDS[shards == shard].tolist())


def test_resharding_gives_the_bytes_of_a_save(tmp_path: Path) -> None:
    table = filled()
    saved = {count: bytes_of(save_as(table, tmp_path / str(count), count)) for count in (3, 7, 1)}
    for before, after in ((3, 7), (7, 1000), (1000, 1), (1, 3)):
        written = reshard_files(tmp_path / str(before), tmp_path / str(after), after)
        assert [native.crc32c(one) for one in bytes_of(tmp_path / str(after))] == list(written.values())
        assert len(written) == after
        if after in saved:
            assert bytes_of(tmp_path / str(after)) == saved[after]


def save_as(table: Table, basename: Path, num_shards: int) -> Path:
    table.save(basename, num_shards=num_shards)
    return basename


def test_more_shards_than_files_may_be_open(tmp_path: Path) -> None:
    table = filled()
    with few_open_files(64):
        table.save(tmp_path / "t", num_shards=100)
        restored = make()
        assert restored.restore(tmp_path / "t") == len(IDS)
        assert restored.restore(tmp_path / "t") == len(IDS)  # checked first, this time
        reshard_files(tmp_path / "t", tmp_path / "other", 99)
    assert sorted(ids_of(restored)) == sorted(IDS.tolist())


@contextmanager
def few_open_files(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_shard_needs_room_for_its_own_rows_only(tmp_path: Path) -> None:
    big = make(64)
    ids = torch.arange(200_000)
    big.assign(ids, torch.ones(len(ids), 64))
    paths = big.save(tmp_path / "t")
    small = make(64, max_memory_bytes=48 << 20)
    with pytest.raises(TableFullError, match="no room for the rows"):
        check_shard_files(small.native, small.schema(), paths, cleared=True)
    with pytest.raises(TableFullError, match="no room for the rows"):
        check_shard_files(small.native, small.schema(), paths, cleared=True, shard=(0, 2))
    check_shard_files(small.native, small.schema(), paths, cleared=True, shard=(0, 2000))
    assert load_shard_files(small.native, paths, (0, 2000)).num_rows == int((shards_of_ids(ids, 2000) == 0).sum())


def test_only_the_buckets_of_a_shard_are_read(tmp_path: Path) -> None:
    table = filled()
    (path,) = table.save(tmp_path / "t")
    data = bytearray(Path(path).read_bytes())
    data[len(data) - 1024 * 16 - 32 - 8] ^= 1  # in the last block, of the last shard
    Path(path).write_bytes(data)
    part = make()
    assert load_shard_files(part.native, [path], (0, 3)).num_rows > 900
    with pytest.raises(CorruptFileError, match="a block's checksum is wrong"):
        load_shard_files(part.native, [path], (2, 3))


def test_a_row_of_the_neighbour_is_found_in_a_bucket_of_both(tmp_path: Path) -> None:
    """Shard 0 of 3 ends inside a bucket: the bucket alone does not tell whose a row is."""
    border = 2**64 // 3
    bucket = border >> 54
    crowd = [one for one in range(1_000_000) if native.bucket_of_id(one) == bucket]
    own = next(one for one in crowd if hash_of(one) < border)
    foreign = next(one for one in crowd if hash_of(one) > border + 1)
    table = make()
    table.assign(torch.tensor([own]), torch.ones(1, 2))
    path = Path(table.save(tmp_path / "t", num_shards=3)[0])
    data = path.read_bytes()
    at = data.index(own.to_bytes(8, "little"))
    block = bytearray(data[at - 8 : at + 8 + 4 + 16])
    block[8:16] = foreign.to_bytes(8, "little")
    sealed = bytes(block) + native.crc32c(bytes(block)).to_bytes(4, "little")
    path.write_bytes(data[: at - 8] + sealed + data[at - 8 + len(sealed) :])
    with pytest.raises(CorruptFileError, match="a row stands in the wrong bucket or shard"):
        make().restore(tmp_path / "t")


def test_ids_may_have_any_shape() -> None:
    ids: Tensor = IDS[:12].view(3, 4)
    assert torch.equal(shards_of_ids(ids, 1000), shards_of_ids(IDS[:12], 1000).view(3, 4))
    assert torch.equal(shards_of_ids(ids.T, 1000), shards_of_ids(ids, 1000).T)
    assert len(shards_of_ids(IDS[:0], 1000)) == 0
