"""Every optimizer inside a table: equal bits at every SIMD level, a faithful entry dump, first values by id alone."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from monolith._core import native
from monolith.embedding import (
    AdagradOptimizer,
    Optimizer,
    RandomNormalInitializer,
    RandomUniformInitializer,
    Segment,
    SgdOptimizer,
    StochasticRoundingFloat16OptimizerWrapper,
    Table,
    TableConfig,
)
from monolith.protos.embedding_hash_table_pb2 import EntryDump

LEVELS = ("scalar", "avx2", "avx512")
AVAILABLE_LEVELS = LEVELS[: LEVELS.index(native.best_simd_level()) + 1]
DECLARED = {kind.name: kind for kind in native.optimizer_kinds()}
RULES: list[type[Any]] = [cls for cls in Optimizer.__subclasses__() if not cls.__name__.startswith("_")]
OPTIMIZERS: list[Optimizer] = [
    *(cls(learning_rate=0.1) if hasattr(cls, "learning_rate") else cls() for cls in RULES),
    AdagradOptimizer(learning_rate=0.1, weight_decay_factor=0.01),
    StochasticRoundingFloat16OptimizerWrapper(AdagradOptimizer(learning_rate=0.1)),
]


@pytest.fixture(autouse=True)
def _settings_afterwards() -> Iterator[None]:
    yield
    native.set_simd_level(native.best_simd_level())
    native.set_num_threads(0)


def trained(optimizer: Optimizer, level: str, threads: int = 2) -> Table:
    native.set_simd_level(level)
    native.set_num_threads(threads)
    random = torch.Generator().manual_seed(3)
    dims = (1,) if optimizer.kind == "batch_softmax" else (19, 3)
    initializer = RandomUniformInitializer(-0.5, 0.5)
    table = Table(TableConfig(name="t", segments=tuple(Segment(dim, optimizer, initializer) for dim in dims), seed=9))
    for step in range(1, 5):
        ids = torch.randint(0, 400, (3000,), generator=random)
        table.apply_gradients(ids, torch.randn(3000, table.dim, generator=random), global_step=step, time=step)
    return table


def all_rows(table: Table) -> list[bytes]:
    return [array.tobytes() for number in range(native.NUM_SUB_TABLES) for array in table.native.read_rows(number)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_rows_are_the_same_bits_at_every_simd_level_and_thread_count(optimizer: Optimizer) -> None:
    expected = all_rows(trained(optimizer, "scalar", threads=1))
    for level in AVAILABLE_LEVELS:
        assert all_rows(trained(optimizer, level, threads=3)) == expected


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_the_entry_dump_holds_the_whole_state(optimizer: Optimizer) -> None:
    table = trained(optimizer, native.best_simd_level())
    (entry,) = table.native.lookup_entries(torch.tensor([5]))
    (dump,) = map(EntryDump.FromString, table.lookup_entry(torch.tensor([5])))
    assert list(dump.num) == list(entry.weights)
    assert dump.last_update_ts_sec == 4
    if optimizer.kind == "moving_average":  # the original keeps no dump of it
        assert not dump.opt.dump
        return
    floats: list[float] = []
    for one in dump.opt.dump:
        kind = one.WhichOneof("type")
        if kind == "named":
            assert one.named.rule == optimizer.kind
            parts = [(slot.name, list(slot.value) or slot.step) for slot in one.named.slot]
        else:
            assert kind == optimizer.kind
            parts = [(field.name, value) for field, value in getattr(one, kind).ListFields()]
        by_name = dict(parts)
        for slot in DECLARED[optimizer.kind].state:
            part = by_name[slot.name]
            if slot.is_step:
                floats += struct.unpack("<2f", struct.pack("<q", part))
            else:
                floats += [part] if isinstance(part, float) else part
    assert struct.pack(f"{len(floats)}f", *floats) == struct.pack(f"{len(entry.state)}f", *entry.state)


@pytest.mark.parametrize("initializer", [RandomUniformInitializer(-1, 1), RandomNormalInitializer(0, 1)])
def test_first_values_depend_on_the_id_alone(
    initializer: RandomUniformInitializer | RandomNormalInitializer,
) -> None:
    ids = torch.arange(-3000, 3000)
    config = TableConfig(name="t", segments=(Segment(3, SgdOptimizer(), initializer),), seed=1)
    found = []
    for threads, order in ((1, ids), (3, ids.flip(0)), (2, ids[torch.randperm(6000)])):
        native.set_num_threads(threads)
        table = Table(config)
        for part in order.split(2500):
            table.assign_add(part, torch.zeros(len(part), 3))
        found.append(table.lookup(ids))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    assert len(set(found[0].view(-1).tolist())) > 17_000  # and differ from id to id
    other = Table(TableConfig(name="t", segments=config.segments, seed=2))
    other.assign_add(ids, torch.zeros(6000, 3))
    assert not torch.equal(other.lookup(ids), found[0])
