"""Table files whose checksums are all right and whose content is not: refused as a whole, whoever restores them."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import monolith as mono
from monolith._core import native
from monolith.checkpoint import compact, load_snapshot, reshard, restore_tables
from monolith.checkpoint.shards import PartialRecoverySaver, TableShard
from monolith.embedding import Table
from monolith.errors import CorruptFileError
from monolith.model import make_tables
from monolith.train.trained_model import TrainedModel
from tests.checkpoint.crafted_tables import HEADER, NUM_SHARDS, Block, TableFile
from tests.checkpoint.made_snapshots import rewrite_manifest
from tests.checkpoint.small_state import PLAN, Model, State, content_of, rows_of
from tests.embedding.written_hash import hash_of
from tests.train import counting_model

FILE = "{}-00000-of-00001"


def id_in_the_wrong_bucket(file: TableFile) -> None:
    block = file.blocks[-1]
    block.ids[0] = next(one for one in range(10_000) if native.bucket_of_id(one) != block.bucket)


def row_too_short(file: TableFile) -> None:
    file.blocks[-1].rows[0] = file.blocks[-1].rows[0][:-4]


def row_too_long(file: TableFile) -> None:
    file.blocks[-1].rows[0] += bytes(4)


def block_that_claims_more(file: TableFile) -> None:
    file.blocks[-1].num_rows = len(file.blocks[-1].ids) + 1


def block_that_claims_none(file: TableFile) -> None:
    file.blocks[-1].num_rows = 0


def index_that_claims_more(file: TableFile) -> None:
    file.counts[file.blocks[-1].bucket] = len(file.blocks[-1].ids) + 1


def index_that_claims_rows_of_no_block(file: TableFile) -> None:
    file.counts[next(one for one in range(native.NUM_BUCKETS) if one not in {b.bucket for b in file.blocks})] = 1


def footer_that_claims_less(file: TableFile) -> None:
    file.num_rows = 1


def block_of_a_bucket_that_does_not_exist(file: TableFile) -> None:
    last = file.blocks[-1]
    content = bytearray(bytes(last))
    content[:4] = (native.NUM_BUCKETS + 7).to_bytes(4, "little")
    content[-4:] = native.crc32c(bytes(content[:-4])).to_bytes(4, "little")

    class Elsewhere(Block):
        def __bytes__(self) -> bytes:
            return bytes(content)

    file.blocks[-1] = Elsewhere(last.bucket, last.ids, last.last_seen, last.rows)


def id_twice_in_a_block(file: TableFile) -> None:
    block = file.blocks[-1]
    block.ids.append(block.ids[-1])
    block.last_seen.append(9)
    block.rows.append(bytes(len(block.rows[0])))


def id_twice_in_two_blocks(file: TableFile) -> None:
    last = file.blocks[-1]
    file.blocks.append(Block(last.bucket, last.ids[-1:], [9], [bytes(len(last.rows[0]))]))


def ids_sorted_by_their_number(file: TableFile) -> None:
    """Give the last bucket two ids, in the order of older versions."""
    block = file.blocks[-1]
    crowd = [one for one in range(-30_000, 30_000) if native.bucket_of_id(one) == block.bucket]
    block.ids = next([a, b] for a in crowd for b in crowd if a < b and hash_of(a) > hash_of(b))
    block.last_seen, block.rows = block.last_seen[:1] * 2, block.rows[:1] * 2


def shard_that_does_not_exist(file: TableFile) -> None:
    file.header[NUM_SHARDS] = 0


def bytes_that_belong_to_nothing(file: TableFile) -> None:
    file.between = b"nothing."


REFUSED = [
    id_in_the_wrong_bucket,
    row_too_short,
    row_too_long,
    block_that_claims_more,
    block_that_claims_none,
    index_that_claims_more,
    index_that_claims_rows_of_no_block,
    footer_that_claims_less,
    block_of_a_bucket_that_does_not_exist,
    id_twice_in_a_block,
    id_twice_in_two_blocks,
    ids_sorted_by_their_number,
    shard_that_does_not_exist,
]
"""The last block is the one that is wrong, so that all others could have been taken before it is seen."""


def craft(folder: Path, table: str, change) -> None:
    """Change a table's file in a snapshot or delta, and the manifest as somebody would who knows how."""
    name = f"tables/{FILE.format(table)}"
    file = TableFile.read(folder / name)
    change(file)
    (folder / name).write_bytes(bytes(file))
    entry = {"bytes": len(bytes(file)), "crc32c": native.crc32c(bytes(file))}
    rewrite_manifest(folder, lambda values: values["files"].__setitem__(name, entry))


def relink(base: Path, delta: Path) -> None:
    """Let a delta build on what its snapshot was made into."""
    link = json.loads((delta / "delta.json").read_text())
    text = json.dumps({**link, "previous_crc32c": native.crc32c((base / "manifest.json").read_bytes())})
    (delta / "delta.json").write_text(text)
    entry = {"bytes": len(text), "crc32c": native.crc32c(text.encode())}
    rewrite_manifest(delta, lambda values: values["files"].__setitem__("delta.json", entry))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    state = State()
    state.train(4)
    trackers = state.track()
    base = state.freeze(trackers=trackers).write_snapshot(folder)
    state.train(2)
    delta = state.freeze(trackers=trackers).write_delta(base)
    state.train(2)
    return base, delta, state.freeze().write_snapshot(folder)


@pytest.fixture
def chain(written, tmp_path):
    """A snapshot and a delta on it, and another snapshot, to be spoilt."""
    return tuple(shutil.copytree(one, tmp_path / one.name) for one in written)


def used() -> State:
    """Something else that tables may hold."""
    state = State()
    state.train(3)
    state.tables["uid"].assign(torch.tensor([10**9]), torch.ones(1, 4), time=7)
    return state


def held(table: Table) -> tuple[dict[int, bytes], int]:
    ids = torch.cat([torch.empty(0, dtype=torch.int64), *(ids for ids, _ in table.items())]).sort().values
    return dict(zip(ids.tolist(), table.lookup_entry(ids), strict=True)), table.native.max_time


def test_files_are_put_together_as_they_were(chain):
    for table in ("uid", "mov"):
        path = chain[0] / "tables" / FILE.format(table)
        assert bytes(TableFile.read(path)) == path.read_bytes()


def test_a_file_of_the_first_version_restores_without_a_step(chain):
    path = chain[0] / "tables" / FILE.format("uid")
    wanted, table = make_tables(PLAN)["uid"], make_tables(PLAN)["uid"]
    wanted.restore(chain[0] / "tables" / "uid")
    assert wanted.native.max_step > 0
    file = TableFile.read(path)
    file.make_old(1, 0)
    assert len(bytes(file)) == path.stat().st_size - 8
    path.write_bytes(bytes(file))
    table.restore(chain[0] / "tables" / "uid")
    assert held(table) == held(wanted)
    assert table.native.max_step == 0


@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.__name__)
@pytest.mark.parametrize("clear", [True, False])
def test_a_table_stays_as_it_was(chain, change, clear):
    craft(chain[0], "uid", change)
    table = used().tables["uid"]
    before = held(table)
    with pytest.raises(CorruptFileError, match="uid-00000-of-00001 is damaged at byte"):
        table.restore(chain[0] / "tables" / "uid", clear=clear)
    assert held(table) == before


@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.__name__)
@pytest.mark.parametrize("place", ["snapshot", "delta"])
def test_nothing_changes_until_the_next_best_is_restored(chain, change, place):
    """`uid` is the second table: the first may have been taken when it is found."""
    base, delta, good = chain
    craft(base if place == "snapshot" else delta, "uid", change)
    if place == "snapshot":
        relink(base, delta)
    wanted = make_tables(PLAN)
    load_snapshot(good, plan=PLAN, tables=wanted)
    for tables in (make_tables(PLAN), used().tables):
        before = rows_of(tables)
        with pytest.raises(CorruptFileError, match="uid-00000-of-00001"):
            load_snapshot(delta, plan=PLAN, tables=tables)
        assert rows_of(tables) == before
        load_snapshot(good, plan=PLAN, tables=tables)
        assert rows_of(tables) == rows_of(wanted)


@pytest.mark.parametrize("change", REFUSED[:2], ids=lambda change: change.__name__)
def test_who_restores_some_tables_keeps_them_all(chain, change):
    craft(chain[1], "uid", change)
    tables = used().tables
    before = rows_of(tables)
    with pytest.raises(CorruptFileError, match="uid-00000-of-00001"):
        restore_tables(chain[1], dict(tables.tables))
    assert rows_of(tables) == before


@pytest.mark.parametrize("change", REFUSED[:2], ids=lambda change: change.__name__)
def test_who_writes_it_anew_writes_nothing(chain, tmp_path, change):
    base, delta, other = chain
    shutil.rmtree(other)
    craft(base, "uid", change)
    relink(base, delta)
    before = content_of(tmp_path)
    for work in (lambda: compact(tmp_path), lambda: reshard(base, tmp_path / "elsewhere", num_shards=2)):
        with pytest.raises(CorruptFileError, match="uid-00000-of-00001 is damaged at byte"):
            work()
    after = content_of(tmp_path)
    assert {name: after[name] for name in before} == before
    assert {Path(name).name for name in after.keys() - before.keys()} <= {"owner.lock"}


def test_who_looks_at_a_model_is_told(chain):
    craft(chain[0], "mov", id_in_the_wrong_bucket)
    with pytest.raises(CorruptFileError, match="mov-00000-of-00001 is damaged at byte"):
        TrainedModel(Model(), chain[0])


def test_a_shard_that_lives_on_keeps_rows_counts_and_weights(tmp_path):
    def fill(shard: TableShard, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        for table in shard.tables.tables.values():
            ids = torch.randint(0, 200, (80,), generator=draw)
            table.apply_gradients(ids, torch.randn(80, 4, generator=draw), time=seed)
        shard.dense["weight"] += seed

    shard = TableShard(0, 1, PLAN, {"weight": torch.zeros(2)})
    saver = PartialRecoverySaver([shard], PLAN, tmp_path)
    for seed in range(1, 6):
        fill(shard, seed)
    path = saver.save(1)
    for seed in range(6, 9):
        fill(shard, seed)
    craft(path, "uid", id_in_the_wrong_bucket)
    before, weight = rows_of(shard.tables), shard.dense["weight"].clone()
    with pytest.raises(CorruptFileError, match="a row stands in the wrong bucket or shard"):
        saver.restore(path)
    assert rows_of(shard.tables) == before
    assert torch.equal(shard.dense["weight"], weight)


def test_a_run_ends_before_it_changes_anything_and_goes_on_when_the_file_is_gone(tmp_path):
    quiet = {"log_step_count_steps": 0, "save_summary_steps": 0, "save_checkpoints_steps": 2}
    source = counting_model.Events(20)
    counting_model.train(tmp_path / "model", events=source, steps=4, **quiet)
    crafted = tmp_path / "model" / "model.ckpt-4"
    craft(crafted, "uid", id_in_the_wrong_bucket)
    before = content_of(tmp_path)
    with pytest.raises(CorruptFileError, match="model.ckpt-4/tables/uid-00000-of-00001 is damaged at byte"):
        counting_model.train(tmp_path / "model", **quiet)
    after = content_of(tmp_path)
    assert {name for name in before if before[name] != after.get(name)} <= {"model/owner.lock"}
    assert after.keys() == before.keys()
    crafted.rename(tmp_path / "aside")
    assert counting_model.train(tmp_path / "model", **quiet).global_step == 5
    schema = source.schema
    plan = mono.model.make_plan(counting_model.Counting(source), schema)
    tables = make_tables(plan)
    load_snapshot(tmp_path / "model" / "model.ckpt-5", plan=plan, tables=tables)
    assert tables["uid"].lookup(torch.arange(21))[:, 0].tolist() == [1.0] * 20 + [0.0]


def test_bytes_that_belong_to_nothing_are_found_by_the_checksum_of_the_file(chain):
    craft(chain[0], "uid", bytes_that_belong_to_nothing)
    for restore in (
        lambda: load_snapshot(chain[0], plan=PLAN, tables=make_tables(PLAN)),
        lambda: reshard(chain[0], chain[0].parent / "elsewhere", num_shards=2),
    ):
        with pytest.raises(CorruptFileError, match="uid-00000-of-00001 is damaged: its checksum is not the one"):
            restore()


def test_a_shard_that_stands_in_for_another_is_refused(chain, tmp_path):
    """Its rows would be there twice, and those of the other nowhere."""
    snapshot = reshard(chain[0], tmp_path / "two", num_shards=2)
    first, second = (f"tables/uid-0000{shard}-of-00002" for shard in range(2))
    data = bytearray((snapshot / first).read_bytes())
    data[44:48] = (1).to_bytes(4, "little")  # the number of the shard
    end = HEADER.size + int.from_bytes(data[72:76], "little")
    data[76:80] = native.crc32c(bytes(data[:76] + data[80:end])).to_bytes(4, "little")
    (snapshot / second).write_bytes(data)
    entry = {"bytes": len(data), "crc32c": native.crc32c(bytes(data))}
    rewrite_manifest(snapshot, lambda values: values["files"].__setitem__(second, entry))
    for tables in (make_tables(PLAN), used().tables):
        before = rows_of(tables)
        with pytest.raises(CorruptFileError, match="uid-00001-of-00002 is damaged at byte 52: its buckets are not"):
            load_snapshot(snapshot, plan=PLAN, tables=tables)
        assert rows_of(tables) == before
