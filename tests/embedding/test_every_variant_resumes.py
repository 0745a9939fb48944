"""Every optimizer, compressor and filter: a table that was saved and restored goes on as if nothing had happened."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding import Segment, Table, TableConfig
from monolith.embedding.admission import (
    AdmissionFilter,
    FilterType,
    SlotOccurrenceThresholdConfig,
    create_dummy_hash_filter,
    create_hash_filter,
    create_probabilistic_filter,
)
from monolith.embedding.config.compressors import Compressor, Fp32Compressor, OneBitCompressor
from monolith.embedding.config.initializers import RandomUniformInitializer
from monolith.embedding.config.optimizers import (
    AdagradOptimizer,
    Optimizer,
    SgdOptimizer,
    StochasticRoundingFloat16OptimizerWrapper,
)
from monolith.embedding.hash_embedding.table_tensors import table_from_tensors, table_to_tensors

FIRST_STEP = 100_000
"""The scale of one-bit segments has grown by then."""

IDS = torch.arange(60)
ONCE = SlotOccurrenceThresholdConfig(default_occurrence_threshold=1)
SOMETIMES = SlotOccurrenceThresholdConfig(default_occurrence_threshold=4)


@dataclass(frozen=True)
class Variant:
    optimizer: Optimizer = AdagradOptimizer(learning_rate=0.05)
    compressor: Compressor = Fp32Compressor()
    admission: Callable[[], AdmissionFilter] | None = None

    def make(self) -> Table:
        dim = 1 if self.optimizer.kind == "batch_softmax" else 3
        start = RandomUniformInitializer(-0.3, 0.3)
        config = TableConfig(name="t", segments=(Segment(dim, self.optimizer, start, self.compressor),))
        return Table(config, admission=self.admission and self.admission())


OPTIMIZERS = [cls for cls in Optimizer.__subclasses__() if not cls.__name__.startswith("_")]
COMPRESSORS = Compressor.__subclasses__()
VARIANTS = {
    **{cls.kind: Variant(cls()) for cls in OPTIMIZERS},
    "float16": Variant(StochasticRoundingFloat16OptimizerWrapper(SgdOptimizer(learning_rate=0.05))),
    **{cls.kind: Variant(compressor=cls()) for cls in COMPRESSORS},
    "sliding_hash_filter": Variant(admission=lambda: create_hash_filter(300, 7, ONCE)),
    "probabilistic_filter": Variant(admission=lambda: create_probabilistic_filter(thresholds=SOMETIMES)),
    "no_filter": Variant(admission=create_dummy_hash_filter),
}


def train(table: Table, first: int, count: int) -> list[Tensor]:
    """Take steps whose gradients depend on what the table reads; returns what it read."""
    read = []
    for step in range(first, first + count):
        draw = torch.Generator().manual_seed(step)
        ids = IDS[torch.randint(0, len(IDS), (16,), generator=draw)]
        rows = table.lookup(ids)
        gradients = 0.5 * rows + torch.randn(rows.shape, generator=draw)
        table.apply_gradients(ids, gradients, global_step=FIRST_STEP + step, time=1000 + step)
        read.append(rows)
    return read


def restore_filter(table: Table, restored: Table, folder: Path) -> None:
    if table.admission is None or restored.admission is None:
        return
    table.admission.save(folder / "filter")
    restored.admission.restore(folder / "filter")
    if isinstance(table.admission.native_filter, native.ProbabilisticFilter):
        restored.admission.native_filter.num_draws = table.admission.native_filter.num_draws


def by_files(table: Table, restored: Table, folder: Path) -> None:
    table.save(folder / "t", num_shards=2)
    restored.restore(folder / "t")


def by_files_into_a_used_table(table: Table, restored: Table, folder: Path) -> None:
    table.save(folder / "t")
    train(restored, 10**7, 3)  # steps beyond those that were saved
    restored.restore(folder / "t")


def by_changes(table: Table, restored: Table, folder: Path) -> None:
    """A file of all rows, and one of those that changed since."""
    with table.track_changes() as tracker:
        table.save(folder / "base")
        train(table, 150, 30)
        frozen = table.freeze(tracker)
        frozen.save_changes(folder / "changes")
    restored.restore(folder / "base")
    restored.restore(folder / "changes", clear=False)


def by_tensors(table: Table, restored: Table, folder: Path) -> None:
    table_from_tensors(restored, table_to_tensors(table))


DOORS = [by_files, by_files_into_a_used_table, by_changes, by_tensors]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_a_restored_table_goes_on_bit_for_bit(variant: Variant, door: Callable[..., None], tmp_path: Path) -> None:
    table, restored = variant.make(), variant.make()
    train(table, 0, 150)
    door(table, restored, tmp_path)
    restore_filter(table, restored, tmp_path)
    assert len(table) > 10
    assert torch.equal(restored.lookup(IDS), table.lookup(IDS))
    assert restored.native.max_step == table.native.max_step
    for ours, theirs in zip(train(restored, 200, 100), train(table, 200, 100), strict=True):
        assert torch.equal(ours, theirs)
    assert restored.lookup_entry(IDS) == table.lookup_entry(IDS)


def test_no_variant_is_left_out() -> None:
    assert {cls.kind for cls in OPTIMIZERS} == {kind.name for kind in native.optimizer_kinds()}
    assert (len(COMPRESSORS), len(FilterType)) == (5, 3)
    assert {kind.value for kind in FilterType} <= VARIANTS.keys()


def test_a_one_bit_row_reads_the_same_before_and_after_a_restore(tmp_path: Path) -> None:
    variant = Variant(SgdOptimizer(learning_rate=1.0), OneBitCompressor(amplitude=1.0))
    table, restored = variant.make(), variant.make()
    table.assign(IDS[:1], torch.full((1, 3), 0.3))
    table.apply_gradients(IDS[1:2], torch.zeros(1, 3), global_step=100_000)
    assert table.lookup(IDS[:1])[0, 0].item() == pytest.approx(0.9999, abs=2e-4)
    by_files(table, restored, tmp_path)
    assert torch.equal(restored.lookup(IDS[:1]), table.lookup(IDS[:1]))


def test_a_cleared_table_starts_again_from_the_first_step() -> None:
    variant = Variant(compressor=OneBitCompressor())
    table, fresh = variant.make(), variant.make()
    train(table, 0, 5)
    table.clear()
    assert table.native.max_step == 0
    for one in (table, fresh):
        one.assign(IDS, torch.full((len(IDS), 3), 0.3))
    assert torch.equal(table.lookup(IDS), fresh.lookup(IDS))


def test_a_late_gradient_does_not_move_the_step_back() -> None:
    table = Variant(compressor=OneBitCompressor()).make()
    table.apply_gradients(IDS, torch.zeros(len(IDS), 3), global_step=5000)
    before = table.lookup(IDS)
    table.apply_gradients(IDS, torch.zeros(len(IDS), 3), global_step=10)
    assert table.native.max_step == 5000
    assert torch.equal(table.lookup(IDS), before)
