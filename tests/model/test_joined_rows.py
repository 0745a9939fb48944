"""Slices that a model reads together are pulled together, and learn what they learn apart."""

import pytest
import torch

import monolith as mono
from monolith.data import Schema
from monolith.embedding import RandomUniformInitializer, SgdOptimizer
from monolith.model import Lookup, Mode, dry_run, make_tables, run_dense
from monolith.tensors import Ragged

NAMES = ("uid", "mov", "tag")
SCHEMA = Schema.of(uid="int64", mov="int64", tag="int64[]")
COLUMNS = {
    "uid": torch.tensor([7, 8, 7]),
    "mov": torch.tensor([7, 7, 9]),
    "tag": Ragged(torch.tensor([1, 2, 2]), torch.tensor([0, 1, 1, 3])),
}


class Joined(mono.MonolithModel):
    """Reads one slice stacked, one side by side, one in both ways, and one alone as well."""

    def __init__(self, reads):
        super().__init__()
        self._reads = reads
        for name in NAMES:
            self.create_embedding_feature_column(
                name, optimizer=SgdOptimizer(learning_rate=0.5), initializer=RandomUniformInitializer(-1, 1)
            )

    def model_fn(self, features, mode):
        parts = []
        if "stack" in self._reads:
            parts.append(self.lookup_embedding_slice(NAMES, "vec", 3, out_type="stack").flatten(1))
        if "concat" in self._reads:
            parts.append(self.lookup_embedding_slice(NAMES, "vec", 3, out_type="concat") * 2)
            parts.append(self.lookup_embedding_slice(NAMES, "bias", 1, out_type="concat"))
        if "sum" in self._reads:
            parts.append(self.lookup_embedding_slice(NAMES, "vec", 3, out_type="add_n"))
        if "alone" in self._reads:
            parts += self.lookup_embedding_slice(["mov"], "vec", 3)
        pred = torch.cat(parts, dim=1)
        return mono.EstimatorSpec(label=None, pred=pred, loss=(pred * pred).sum())


def train(reads, *, joined, unused=False):
    tried = dry_run(Joined(reads), SCHEMA)
    tables = make_tables(tried.plan)
    for table in tables.tables.values():
        table.assign(torch.arange(10), torch.arange(10.0 * table.dim).view(10, -1) / 50)
    lookup = Lookup(tried.plan, tables, tried.layouts if joined else None)
    for step in range(3):
        pulled = lookup.pull(COLUMNS)
        spec = run_dense(Joined(reads), pulled.slices, COLUMNS, Mode.TRAIN)
        if not unused:
            spec.loss.backward()
        lookup.push(pulled, global_step=step)
    return {name: table.lookup(torch.arange(10)) for name, table in tables.tables.items()}, pulled


@pytest.mark.parametrize("reads", ["stack", "concat", "stack concat", "stack concat alone", "concat sum", "sum alone"])
def test_rows_learn_the_same_joined_or_apart(reads):
    rows, _ = train(reads, joined=True)
    expected, _ = train(reads, joined=False)
    for name in NAMES:
        torch.testing.assert_close(rows[name], expected[name])


def test_what_is_read_together_is_one_tensor_and_what_is_read_alone_another():
    _, pulled = train("stack concat alone", joined=True)
    shapes = sorted(tuple(rows.shape) for rows in pulled.slices.values())
    assert shapes == [(3, 3), (3, 3), (3, 3, 3), (3, 9)]


def test_without_a_gradient_rows_stay_as_they_are():
    rows, _ = train("stack concat", joined=True, unused=True)
    before = torch.arange(40.0).view(10, 4) / 50
    assert torch.equal(rows["uid"], before)


def test_an_empty_batch_is_pulled_and_pushed():
    tried = dry_run(Joined("stack concat"), SCHEMA)
    lookup = Lookup(tried.plan, make_tables(tried.plan), tried.layouts)
    none = {
        "uid": torch.empty(0, dtype=torch.int64),
        "mov": torch.empty(0, dtype=torch.int64),
        "tag": Ragged(torch.empty(0, dtype=torch.int64), torch.tensor([0])),
    }
    pulled = lookup.pull(none)
    assert sorted(tuple(rows.shape) for rows in pulled.slices.values()) == [(0, 3), (0, 3, 3), (0, 9)]
    assert lookup.push(pulled, global_step=0).inserted == 0
