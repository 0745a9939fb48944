"""Random operations: the native table agrees with the dict bit for bit, at every SIMD level and thread count."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from monolith._core import native
from monolith.embedding import Segment, SgdOptimizer, Table, TableConfig
from monolith.embedding.table_protocol import DictTable

LEVELS = ("scalar", "avx2", "avx512")
AVAILABLE_LEVELS = LEVELS[: LEVELS.index(native.best_simd_level()) + 1]
DAY = 86400
OPERATIONS = ("assign", "assign_add", "apply_gradients", "apply_plan", "erase", "evict", "reload", "clear")


@pytest.fixture(autouse=True)
def _settings_afterwards() -> Iterator[None]:
    yield
    native.set_simd_level(native.best_simd_level())
    native.set_num_threads(0)


class Both:
    """A native table and the dict beside it, put through the same operations."""

    def __init__(self, seed: int, dim: int, universe: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.fast = Table(
            TableConfig(name="t", segments=(Segment(dim, SgdOptimizer(learning_rate=0.3)),), expire_days=1)
        )
        self.slow = DictTable(dim, torch.tensor(0.3).item())
        self.last_seen: dict[int, int] = {}
        self.now = 10 * DAY
        # Small, negative and far apart ids.
        spread = torch.randint(-(2**62), 2**62, (universe,), generator=self.random)
        self.universe = torch.cat([torch.arange(-universe // 2, universe // 2), spread])

    def ids(self, count: int) -> Tensor:
        return self.universe[torch.randint(len(self.universe), (count,), generator=self.random)]

    def values(self, count: int) -> Tensor:
        return torch.randn(count, self.slow.dim, generator=self.random)

    def do(self, operation: str, count: int) -> None:
        ids = self.ids(count)
        if operation in ("assign", "assign_add", "apply_gradients", "apply_plan"):
            self.now += DAY // 4
            self.change(operation, ids)
        elif operation == "erase":
            assert self.fast.erase(ids) == self.slow.erase(ids)
        elif operation == "evict":
            old = [id_ for id_, time in self.last_seen.items() if self.now - time >= DAY and id_ in self.slow.rows]
            assert self.slow.erase(torch.tensor(old, dtype=torch.int64)) == self.fast.evict(self.now)
        elif operation == "clear":
            self.fast.clear()
            self.slow.rows.clear()
        else:
            self.reload()

    def change(self, operation: str, ids: Tensor) -> None:
        values = self.values(len(ids))
        before = len(self.slow)
        if operation == "apply_plan":
            plan = self.fast.plan(ids)
            assert torch.equal(plan.lookup(), self.slow.lookup(ids))
            # What was found may be gone, and its row may be another's, when the gradients come.
            gone = ids[::3]
            assert self.fast.erase(gone) == self.slow.erase(gone)
            before = len(self.slow)
            result = plan.apply_gradients(values, time=self.now)
            self.slow.apply_gradients(ids, values)
        else:
            result = getattr(self.fast, operation)(ids, values, time=self.now)
            getattr(self.slow, operation)(ids, values)
        self.last_seen.update(dict.fromkeys(ids.tolist(), self.now))
        assert (result.inserted, result.refused, result.filtered) == (len(self.slow) - before, 0, 0)

    def reload(self) -> None:
        """Save, spoil and restore."""
        with tempfile.TemporaryDirectory() as folder:
            self.fast.save(Path(folder) / "t", num_shards=1 + self.now % 3, drop_expired=False)
            self.fast.assign(self.ids(10), self.values(10), time=self.now + 9 * DAY)
            assert self.fast.restore(Path(folder) / "t") == len(self.slow)

    def check(self) -> None:
        assert len(self.fast) == len(self.slow)
        assert torch.equal(self.fast.lookup(self.universe), self.slow.lookup(self.universe))
        assert torch.equal(self.fast.contains(self.universe), self.slow.contains(self.universe))
        found = dict(pair for ids, rows in self.fast.items() for pair in zip(ids.tolist(), rows.tolist(), strict=True))
        assert found == {id_: row.tolist() for id_, row in self.slow.rows.items()}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    dim=st.sampled_from([1, 3, 8, 17]),
    level=st.sampled_from(AVAILABLE_LEVELS),
    threads=st.sampled_from([1, 2, 3]),
    steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.sampled_from([0, 1, 7, 300, 2500])), max_size=12),
)
def test_random_operations(seed: int, dim: int, level: str, threads: int, steps: list[tuple[str, int]]) -> None:
    native.set_simd_level(level)
    native.set_num_threads(threads)
    both = Both(seed, dim, universe=2000)
    for operation, count in steps:
        both.do(operation, count)
    both.check()


def test_growth_over_thousands_of_ids_and_back() -> None:
    both = Both(seed=1, dim=2, universe=20_000)
    for _ in range(4):
        both.do("assign_add", 12_000)
    both.check()
    both.do("erase", 60_000)
    both.do("apply_gradients", 12_000)
    both.check()


def test_ids_that_crowd_into_few_lines_of_the_index() -> None:
    """Sequential ids of one sub-table and bucket, found by search: displacement, wrap-around and pull-back on erase."""
    crowd = [id_ for id_ in range(120_000) if native.bucket_of_id(id_) == 3]
    ids = torch.tensor(crowd)
    both = Both(seed=2, dim=1, universe=10)
    both.universe = ids
    for operation in ("assign", "erase", "assign_add", "evict", "apply_plan", "erase", "assign", "reload"):
        both.do(operation, 150)
        both.check()


def rows_after(level: str, threads: int, *, dedup: bool) -> tuple[list[object], ...]:
    native.set_simd_level(level)
    native.set_num_threads(threads)
    random = torch.Generator().manual_seed(5)
    table = Table(TableConfig(name="t", segments=(Segment(5, SgdOptimizer(learning_rate=0.1)),)))
    for step in range(4):
        ids = torch.randint(0, 700, (9000,), generator=random)
        gradients = torch.randn(9000, 5, generator=random)
        table.plan(ids, dedup=dedup).apply_gradients(gradients, time=step)
    return tuple([ids.tolist(), rows.tolist()] for ids, rows in table.items())


@pytest.mark.parametrize("dedup", [True, False])
def test_results_depend_neither_on_threads_nor_on_simd(dedup: bool) -> None:
    expected = rows_after("scalar", 1, dedup=dedup)
    for level in AVAILABLE_LEVELS:
        for threads in (1, 2, 3):
            assert rows_after(level, threads, dedup=dedup) == expected


def test_an_update_by_plan_gives_an_id_erased_since_a_new_row() -> None:
    table = Table(TableConfig(name="t", segments=(Segment(1, SgdOptimizer(learning_rate=1.0)),)))
    ids = torch.tensor([1, 2])
    table.assign(ids, torch.tensor([[5.0], [6.0]]))
    plan = table.plan(ids)
    plan.lookup()
    table.erase(torch.tensor([1]))
    table.assign(torch.tensor([3]), torch.tensor([[9.0]]))  # takes over the freed row
    assert plan.apply_gradients(torch.ones(2, 1)).inserted == 1
    assert table.lookup(torch.tensor([1, 2, 3])).tolist() == [[-1], [5], [9]]
