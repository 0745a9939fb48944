"""Pull and push: rows and gradients go to the right place, whatever the order of features and slices."""

import pytest
import torch

import monolith as mono
from monolith.data import Schema
from monolith.embedding import ConstantsInitializer, SgdOptimizer, ZerosInitializer
from monolith.model import Lookup, Mode, dense, make_plan, make_tables, run_dense

SCHEMA = Schema.of(uid="int64", mov="int64")
SGD = SgdOptimizer(learning_rate=1.0)


class TwoSlices(mono.MonolithModel):
    """Asks for "zed" before "abc" and for uid before mov: neither is the order of the tables."""

    def __init__(self, threshold=0):
        super().__init__()
        for name in ("uid", "mov"):
            self.create_embedding_feature_column(
                name, optimizer=SGD, initializer=ZerosInitializer(), occurrence_threshold=threshold, filter_capacity=300
            )

    def model_fn(self, features, mode):
        zed = self.lookup_embedding_slice(["uid", "mov"], "zed", 2)
        abc = self.lookup_embedding_slice(["uid", "mov"], "abc", 3)
        pred = torch.cat([*zed, *abc], dim=1)
        return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())


@pytest.fixture
def lookup():
    plan = make_plan(TwoSlices(), SCHEMA)
    return Lookup(plan, make_tables(plan))


COLUMNS = {"uid": torch.tensor([7, 8, 7]), "mov": torch.tensor([7, 7, 9])}


def test_slices_are_the_rows_of_each_slice(lookup):
    for place, name in enumerate(("uid", "mov")):
        ids = torch.tensor([7, 8, 9])
        lookup.tables[name].assign(ids, torch.arange(15.0).view(3, 5) + 100 * place)
    slices = lookup.pull(COLUMNS).slices
    assert slices["uid", "zed"].tolist() == [[0, 1], [5, 6], [0, 1]]
    assert slices["uid", "abc"].tolist() == [[2, 3, 4], [7, 8, 9], [2, 3, 4]]
    assert slices["mov", "zed"].tolist() == [[100, 101], [100, 101], [110, 111]]
    assert slices["mov", "abc"].tolist() == [[102, 103, 104], [102, 103, 104], [112, 113, 114]]
    assert all(rows.is_leaf and rows.requires_grad for rows in slices.values())


def test_gradients_reach_their_slice_and_repeated_ids_add_up(lookup):
    pulled = lookup.pull(COLUMNS)
    weights = {key: torch.randn_like(rows) for key, rows in pulled.slices.items()}
    sum((pulled.slices[key] * weights[key]).sum() for key in weights).backward()
    lookup.push(pulled, global_step=0, time=5)
    for name, ids in COLUMNS.items():
        step = torch.cat([weights[name, "zed"], weights[name, "abc"]], dim=1)
        for one in ids.unique():
            torch.testing.assert_close(lookup.tables[name].lookup(one.view(1))[0], -step[ids == one].sum(0))


def test_a_leaf_without_a_gradient_counts_as_zeros(lookup):
    pulled = lookup.pull(COLUMNS)
    pulled.slices["uid", "zed"].sum().backward()
    lookup.push(pulled, global_step=0)
    assert lookup.tables["uid"].lookup(torch.tensor([7])).tolist() == [[-2, -2, 0, 0, 0]]
    assert lookup.tables["mov"].lookup(torch.tensor([7])).tolist() == [[0, 0, 0, 0, 0]]


def test_a_gradient_that_was_thrown_away_counts_as_zeros():
    class OneSlice(mono.MonolithModel):
        def model_fn(self, features, mode):
            (rows,) = self.lookup_embedding_slice(["uid"], slice_dim=2, optimizer=SGD)
            return mono.EstimatorSpec(label=None, pred=rows, loss=rows.sum())

    plan = make_plan(OneSlice(), SCHEMA)
    lookup = Lookup(plan, make_tables(plan))
    lookup.tables["uid"].assign(torch.tensor([7, 8]), torch.ones(2, 2))
    pulled = lookup.pull(COLUMNS)
    (rows,) = pulled.slices.values()
    rows.sum().backward()
    rows.grad = None  # as zero_grad does
    lookup.push(pulled, global_step=0)
    assert lookup.tables["uid"].lookup(torch.tensor([7, 8])).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_gradient_that_is_not_finite_changes_nothing(lookup):
    pulled = lookup.pull(COLUMNS)
    (pulled.slices["uid", "zed"] * float("nan")).sum().backward()
    with pytest.raises(ValueError, match="nothing was changed"):
        lookup.push(pulled, global_step=0)
    assert len(lookup.tables["uid"]) == len(lookup.tables["mov"]) == 0


def test_pulling_makes_no_row_and_needs_no_gradient(lookup):
    pulled = lookup.pull(COLUMNS, requires_grad=False)
    assert not any(rows.requires_grad for rows in pulled.slices.values())
    assert len(lookup.tables["uid"]) == 0


def test_a_batch_that_lacks_a_feature_names_it(lookup):
    with pytest.raises(KeyError, match="lacks the features mov"):
        lookup.pull({"uid": COLUMNS["uid"]})


def test_an_id_gets_a_row_after_its_threshold_and_features_are_counted_apart():
    plan = make_plan(TwoSlices(threshold=2), SCHEMA)
    lookup = Lookup(plan, make_tables(plan))
    rows = []
    for _ in range(3):
        # The id is in both columns: a shared filter would count it twice per step.
        pulled = lookup.pull({"uid": torch.tensor([5]), "mov": torch.tensor([5])})
        sum(rows.sum() for rows in pulled.slices.values()).backward()
        lookup.push(pulled, global_step=0)
        rows.append((len(lookup.tables["uid"]), len(lookup.tables["mov"])))
    assert rows == [(0, 0), (0, 0), (1, 1)]


def test_serving_tables_have_no_filter_and_take_rows():
    plan = make_plan(TwoSlices(threshold=2), SCHEMA)
    tables = make_tables(plan, serving=True)
    tables["uid"].assign(torch.tensor([1]), torch.ones(1, 5))
    slices = Lookup(plan, tables).pull({"uid": torch.tensor([1]), "mov": torch.tensor([1])}).slices
    assert slices["uid", "abc"].tolist() == [[1, 1, 1]]


def test_dense_reads_leaves_and_an_unplanned_lookup_says_what_was_planned():
    model = TwoSlices()
    plan = make_plan(model, SCHEMA)
    slices = Lookup(plan, make_tables(plan)).pull(COLUMNS).slices
    assert dense(model, slices, COLUMNS)["pred"].shape == (3, 10)
    del slices["mov", "abc"]
    with pytest.raises(RuntimeError, match=r"feature 'mov', slice 'abc', dim 3; planned were: .*uid/zed \(dim 2\)"):
        run_dense(model, slices, COLUMNS, Mode.TRAIN)
    assert model.slice_reader is None


def test_equal_ids_of_two_features_start_from_different_rows():
    class Random(mono.MonolithModel):
        def model_fn(self, features, mode):
            pred = torch.cat(self.lookup_embedding_slice(["uid", "mov"], slice_dim=4), dim=1)
            return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())

    plan = make_plan(Random(), SCHEMA)
    tables = make_tables(plan)
    rows = [tables[name] for name in ("uid", "mov")]
    for table in rows:
        table.assign_add(torch.tensor([5]), torch.zeros(1, 4))
    user, movie = (table.lookup(torch.tensor([5])) for table in rows)
    assert not torch.equal(user, movie)
    assert user.abs().max() <= 0.05


def test_a_plan_of_other_tables_is_refused():
    plan = make_plan(TwoSlices(), SCHEMA)

    class Wider(TwoSlices):
        def model_fn(self, features, mode):
            pred = torch.cat(self.lookup_embedding_slice(["uid", "mov"], "abc", 9, ConstantsInitializer(1.0)), dim=1)
            return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())

    with pytest.raises(ValueError, match="has dim 9, the plan asks for 5"):
        Lookup(plan, make_tables(make_plan(Wider(), SCHEMA)))
