"""Layouts made by one native call train the same model as slices that are looked up and joined one by one."""

import numpy as np
import pytest
import torch
from torch import nn

import monolith as mono
from monolith.data import Schema
from monolith.embedding import AdagradOptimizer, SgdOptimizer
from monolith.errors import NotFiniteError
from monolith.model import FusedLookup, Lookup, Mode, dry_run, make_tables, run_dense
from monolith.tensors import Ragged
from tests.train.recorder import Recorder

DIM, STEPS, BATCH = 6, 8, 32
KINDS = ("concat", "stack", "add_n", "none", "groups", "layouts")
JOINED = ["user", "tags", "pair"]


class Fused(mono.MonolithModel):
    """Reads its rows in the ways that `params` names; `params` also has the columns of the data."""

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column("user", occurrence_threshold=2, filter_capacity=10_000)
        self.create_embedding_feature_column("tags", optimizer=AdagradOptimizer(0.1))
        self.create_embedding_feature_column("pair", combiner="reduce_mean")
        # Shares rows, so gradients of two features meet in one table.
        self.create_embedding_feature_column(
            "seen", shared_name="tags", max_seq_length=2, optimizer=AdagradOptimizer(0.1)
        )
        if "layouts" in params["kinds"]:
            self.add_layout("both", [("user", "vec", DIM), ("pair", "bias", 1)], "concat")
            self.add_layout("apart", [("seen", "vec", DIM), ("tags", "bias", 1)])
        self.tower = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 1))
        self.tower(torch.zeros(2, self._width()))
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.1)

    def _width(self):
        widths = {
            "concat": 3 * DIM + 2,
            "stack": 3 * DIM,
            "add_n": DIM,
            "none": 3 * DIM + 2 * DIM,
            "groups": 2 * DIM + 2 * DIM,
            "layouts": DIM + 1 + 2 * DIM + 1,
        }
        return sum(widths[kind] for kind in self.params["kinds"])

    def input_fn(self, mode):
        return mono.data.arrays(self.params["columns"], batch_size=BATCH)

    def rows(self, kind):
        if kind == "concat":
            wide = self.lookup_embedding_slice(JOINED, "vec", DIM, out_type="concat")
            return [wide, self.lookup_embedding_slice({"user": 1, "pair": 1}, "bias", out_type="concat")]
        if kind in ("stack", "add_n"):
            return [self.lookup_embedding_slice(JOINED, "vec", DIM, out_type=kind)]
        if kind == "none":
            return self.lookup_embedding_slice([*JOINED, "seen"], "vec", DIM)
        if kind == "groups":
            pooled = self.lookup_embedding_slice([["user", "tags"], ["pair"]], "vec", DIM)
            return [*pooled, self.lookup_embedding_slice(["seen"], "vec", DIM, out_type="concat")]
        return [self.get_layout("both"), *self.get_layout("apart")]

    def model_fn(self, features, mode):
        parts = [rows.flatten(1) for kind in self.params["kinds"] for rows in self.rows(kind)]
        logit = self.tower(torch.cat(parts, dim=1)).squeeze(1)
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"], reduction="sum")
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def columns(seed=7):
    """Few different ids, so that they repeat within an event, a batch and a table."""
    random = np.random.default_rng(seed)
    count = STEPS * BATCH
    lengths = random.integers(0, 4, size=(2, count))
    ragged = [Ragged.from_lists([random.integers(1, 20, size=n).tolist() for n in row], torch.int64) for row in lengths]
    return {
        "user": torch.from_numpy(random.integers(1, 30, size=count)),
        "tags": ragged[0],
        "seen": ragged[1],
        "pair": torch.from_numpy(random.integers(1, 9, size=(count, 2))),
        "label": torch.from_numpy(random.integers(0, 2, size=count).astype(np.float32)),
    }


def train(model_dir, kinds, *, fused, steps=None, **settings):
    recorder = Recorder()
    config = mono.RunConfig(
        model_dir=model_dir, log_step_count_steps=0, save_summary_steps=0, enable_fused_layout=fused, **settings
    )
    estimator = mono.Estimator(Fused, config, params={"kinds": kinds, "columns": columns()})
    estimator.train(hooks=[recorder], steps=steps)
    weights = {name: value.detach().clone() for name, value in estimator.model.state_dict().items()}
    return recorder, weights


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_trains_to_the_same_bits(tmp_path, kind):
    plain, plain_weights = train(tmp_path / "plain", [kind], fused=False)
    fused, fused_weights = train(tmp_path / "fused", [kind], fused=True)
    assert len(fused.losses) == STEPS
    assert fused.losses == plain.losses
    assert fused.rows == plain.rows
    assert sum(map(len, fused.rows.values())) > 30
    for name, value in plain_weights.items():
        assert torch.equal(fused_weights[name], value), name


def test_all_kinds_together_train_to_the_same_rows(tmp_path):
    # A slice that is read in several ways adds up its gradients in another order: the last bits may differ.
    plain, plain_weights = train(tmp_path / "plain", KINDS, fused=False)
    fused, fused_weights = train(tmp_path / "fused", KINDS, fused=True)
    np.testing.assert_allclose(fused.losses, plain.losses, rtol=1e-5)
    for table, rows in plain.rows.items():
        assert fused.rows[table].keys() == rows.keys()
        np.testing.assert_allclose([*fused.rows[table].values()], [*rows.values()], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fused_weights, plain_weights, rtol=1e-4, atol=1e-5)


def test_the_same_seed_gives_the_same_bits_in_deterministic_mode(tmp_path):
    runs = [
        train(tmp_path / name, KINDS, fused=True, deterministic=True, seed=seed)[0]
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    assert runs[0].losses == runs[1].losses
    assert runs[0].rows == runs[1].rows
    assert runs[0].losses != runs[2].losses


def test_a_run_may_go_on_with_the_other_way(tmp_path):
    whole, _ = train(tmp_path / "whole", ["concat"], fused=False)
    train(tmp_path / "cut", ["concat"], fused=True, steps=3)
    rest, _ = train(tmp_path / "cut", ["concat"], fused=False)
    assert rest.first_step == 3
    assert rest.losses == whole.losses[3:]
    assert rest.rows == whole.rows


SCHEMA = Schema.of(user="int64", tags="int64[]", seen="int64[]", pair="int64[2]", label="float32")


def lookup_of(kinds):
    model = Fused({"kinds": kinds, "columns": columns()})
    tried = dry_run(model, SCHEMA)
    return model, FusedLookup(tried.plan, make_tables(tried.plan), tried.layouts)


def batch(model):
    return next(iter(model.input_fn(Mode.TRAIN))).columns


def test_slices_are_what_the_model_reads_and_no_more():
    model, lookup = lookup_of(["concat", "add_n", "layouts"])
    slices = lookup.pull(batch(model)).slices
    assert {key: tuple(rows.shape) for key, rows in slices.items()} == {
        ("user,tags,pair", "vec:concat"): (BATCH, 3 * DIM),
        ("user,pair", "bias:concat"): (BATCH, 2),
        ("user,tags,pair", "vec:add_n"): (BATCH, DIM),
        ("user,pair", "vec,bias:concat"): (BATCH, DIM + 1),
        ("seen", "vec"): (BATCH, 2, DIM),
        ("tags", "bias"): (BATCH, 1),
    }


def test_one_native_call_forward_and_one_backward():
    model, lookup = lookup_of(KINDS)
    native_plan, calls = lookup._layout_plan.native_plan, []

    class Counted:
        def forward(self, *args):
            calls.append("forward")
            native_plan.forward(*args)

        def backward(self, *args):
            calls.append("backward")
            native_plan.backward(*args)

        def shard(self, *args):
            return native_plan.shard(*args)

    object.__setattr__(lookup._layout_plan, "native_plan", Counted())
    pulled = lookup.pull(batch(model))
    run_dense(model, pulled.slices, batch(model), Mode.TRAIN).loss.backward()
    lookup.push(pulled, global_step=0)
    assert calls == ["forward", "backward"]


def test_gradients_of_a_joined_leaf_are_those_of_plain_torch():
    model, lookup = lookup_of(["add_n"])
    events = batch(model)
    pulled = lookup.pull(events)
    weight = torch.randn(BATCH, DIM, generator=torch.Generator().manual_seed(1))
    ((pulled.slices["user,tags,pair", "vec:add_n"]) * weight).sum().backward()
    flat = pulled.row_gradients()
    # Rows lie table by table, "pair" first: every one of the two ids gets half the gradient of its event.
    pair = flat[: events["pair"].numel() * DIM].view(BATCH, 2, DIM)
    torch.testing.assert_close(pair, (weight / 2).unsqueeze(1).expand(BATCH, 2, DIM))
    tags = flat[events["pair"].numel() * DIM :][: len(events["tags"].values) * DIM].view(-1, DIM)
    torch.testing.assert_close(tags, weight[events["tags"].value_rowids()])


def test_rows_without_gradients():
    model, lookup = lookup_of(["concat"])
    pulled = lookup.pull(batch(model), requires_grad=False)
    assert not any(rows.requires_grad for rows in pulled.slices.values())
    with pytest.raises(ValueError, match="requires_grad=False"):
        lookup.push(pulled, global_step=0)


def test_a_batch_that_lacks_a_feature_names_it():
    model, lookup = lookup_of(["concat"])
    events = {name: column for name, column in batch(model).items() if name != "tags"}
    with pytest.raises(KeyError, match="lacks the features tags"):
        lookup.pull(events)


def test_an_unplanned_lookup_says_what_was_planned():
    model, lookup = lookup_of(["concat"])
    slices = lookup.pull(batch(model)).slices
    model.params["kinds"] = ["stack"]
    with pytest.raises(RuntimeError, match="unplanned lookup of feature 'user', .*user,tags,pair/vec:concat"):
        run_dense(model, slices, batch(model), Mode.TRAIN)


def test_a_combiner_that_the_layout_has_not_is_refused():
    class SquareRoot(mono.MonolithModel):
        def model_fn(self, features, mode):
            (rows,) = self.lookup_embedding_slice(["tags"], "vec", 2)
            return mono.EstimatorSpec(label=None, pred=rows, loss=rows.sum())

    model = SquareRoot()
    model.create_embedding_feature_column("tags", combiner="sqrtn", optimizer=SgdOptimizer(1.0))
    tried = dry_run(model, SCHEMA)
    assert Lookup(tried.plan, make_tables(tried.plan))
    with pytest.raises(ValueError, match=r"pooling_type error! Feature 'tags' has combiner 'sqrtn'"):
        FusedLookup(tried.plan, make_tables(tried.plan), tried.layouts)


def test_names_of_layouts():
    model = Fused({"kinds": ["layouts"], "columns": columns()})
    with pytest.raises(KeyError, match="key both exists"):
        model.add_layout("both", [("user", "vec", DIM)])
    with pytest.raises(ValueError, match="'empty' has no slices"):
        model.add_layout("empty", [])
    with pytest.raises(RuntimeError, match="inside model_fn only"):
        model.get_layout("both")
    model.rows = lambda kind: [model.get_layout("bothh")]
    with pytest.raises(KeyError, match="no layout 'bothh'; add_layout made both, apart"):
        dry_run(model, SCHEMA)


class HugeRows(mono.Hook):
    """Each is a number; two of them add up to infinity."""

    def before_run(self, context):
        if context.global_step == 1:
            table = context.tables["pair"]
            table.assign(torch.arange(9), torch.full((9, table.dim), 3e38))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("concat", "a row of 'user,tags,pair', slice 'vec:concat', is not finite in event 0 of the batch"),
        ("none", r"the row of 'pair', slice 'vec', id \[\d, \d\] is not finite"),
    ],
)
def test_rows_that_add_up_to_infinity_are_named(tmp_path, kind, expected):
    config = mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0, enable_fused_layout=True)
    estimator = mono.Estimator(Fused, config, params={"kinds": [kind], "columns": columns()})
    with pytest.raises(NotFiniteError, match=f"at step 1, .*{expected}"):
        estimator.train(hooks=[HugeRows()])
