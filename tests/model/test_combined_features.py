"""Features with many ids per event: combined forward, and their gradients taken apart again, against plain torch."""

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.data import Schema
from monolith.embedding import SgdOptimizer
from monolith.model import Lookup, LookupPlan, Mode, make_plan, make_tables, run_dense
from monolith.tensors import Ragged

SCHEMA = Schema.of(tags="int64[]", seen="int64[]", pair="int64[2]", one="int64")
SGD = SgdOptimizer(learning_rate=1.0)
DIM = 3
TAGS = [[1, 2], [], [2, 2, 3]]
SEEN = [[3], [1, 2, 3], []]


class Combined(mono.MonolithModel):
    """`seen` shares the rows of `tags`; each is combined in its own way."""

    def __init__(self, combiner="reduce_sum"):
        super().__init__()
        self.create_embedding_feature_column("tags", combiner=combiner, optimizer=SGD)
        self.create_embedding_feature_column("seen", shared_name="tags", max_seq_length=2, optimizer=SGD)
        self.create_embedding_feature_column("pair", combiner="reduce_mean", optimizer=SGD)
        self.create_embedding_feature_column("one", optimizer=SGD)

    def model_fn(self, features, mode):
        pooled = self.lookup_embedding_slice(["tags", "pair", "one"], "vec", DIM)
        (sequence,) = self.lookup_embedding_slice(["seen"], "vec", DIM)
        (bias,) = self.lookup_embedding_slice(["tags"], "bias", 1)
        pred = torch.cat([*pooled, bias, sequence.flatten(1)], dim=1)
        return mono.EstimatorSpec(label=None, pred=pred, loss=(pred * self.params_of(pred)).sum())

    def params_of(self, pred):
        return torch.arange(1.0, pred.numel() + 1).view_as(pred)


COLUMNS = {
    "tags": Ragged.from_lists(TAGS),
    "seen": Ragged.from_lists(SEEN),
    "pair": torch.tensor([[1, 2], [2, 2], [3, 1]]),
    "one": torch.tensor([1, 2, 2]),
}


def lookup_of(model):
    plan = make_plan(model, SCHEMA)
    assert LookupPlan.from_json(plan.to_json()) == plan
    lookup = Lookup(plan, make_tables(plan))
    random = np.random.default_rng(5)
    for table in lookup.tables.tables.values():
        table.assign(torch.arange(4), torch.from_numpy(random.normal(size=(4, table.dim)).astype(np.float32)))
    return lookup


def reference(model, rows):
    """The same model on dense arrays of rows, with torch's own gradients."""
    weights = {name: value.clone().requires_grad_() for name, value in rows.items()}
    scale = {"reduce_sum": lambda n: 1, "reduce_mean": lambda n: max(n, 1), "sqrtn": lambda n: max(n, 1) ** 0.5}
    divide = scale[model.feature_columns["tags"].combiner]
    tags = torch.stack([weights["tags"][ids].sum(0) / divide(len(ids)) for ids in TAGS])
    padded = [torch.cat([weights["tags"][ids[:2], :DIM], torch.zeros(2 - len(ids[:2]), DIM)]) for ids in SEEN]
    pair = weights["pair"][COLUMNS["pair"]].mean(1)
    one = weights["one"][COLUMNS["one"]]
    pred = torch.cat([tags[:, :DIM], pair, one, tags[:, DIM:], torch.stack(padded).flatten(1)], dim=1)
    (pred * model.params_of(pred)).sum().backward()
    return pred.detach(), {name: value.grad for name, value in weights.items()}


@pytest.mark.parametrize("combiner", ["reduce_sum", "reduce_mean", "sqrtn"])
def test_rows_and_gradients_are_those_of_plain_torch(combiner):
    model = Combined(combiner)
    lookup = lookup_of(model)
    before = {name: table.lookup(torch.arange(4)) for name, table in lookup.tables.tables.items()}
    assert list(before) == ["one", "pair", "tags"]
    pulled = lookup.pull(COLUMNS)
    spec = run_dense(model, pulled.slices, COLUMNS, Mode.TRAIN)
    spec.loss.backward()
    lookup.push(pulled, global_step=0)
    pred, gradients = reference(model, before)
    torch.testing.assert_close(spec.pred, pred)
    for name, table in lookup.tables.tables.items():
        torch.testing.assert_close(before[name] - table.lookup(torch.arange(4)), gradients[name])


def test_a_batch_without_any_id_reads_zeros():
    lookup = lookup_of(Combined())
    empty = Ragged.from_lists([[], [], []], torch.int64)
    slices = lookup.pull({**COLUMNS, "tags": empty, "seen": empty}).slices
    assert slices["tags", "vec"].tolist() == [[0.0] * DIM] * 3
    assert slices["seen", "vec"].tolist() == [[[0.0] * DIM] * 2] * 3


def test_a_feature_can_share_a_table_that_is_created_for_it():
    model = mono.MonolithModel()
    column = model.create_embedding_feature_column("seen", shared_name="movie")
    assert (column.table, model.feature_columns["movie"].table) == ("movie", "movie")
    with pytest.raises(ValueError, match="again shared embedding with seen, so seen should create first!"):
        model.create_embedding_feature_column("again", shared_name="seen")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (dict(combiner="first_n"), "seq_length must be greater than 0"),
        (dict(combiner="reduce_sum", max_seq_length=3), "makes a sequence"),
        (dict(combiner="max"), "combiner must be one of"),
    ],
)
def test_a_wrong_combiner_is_refused(arguments, error):
    with pytest.raises(ValueError, match=error):
        mono.MonolithModel().create_embedding_feature_column("tags", **arguments)
