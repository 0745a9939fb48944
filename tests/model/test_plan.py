"""The lookup plan: what it records, when its hash changes, what it refuses."""

import copy
import hashlib
import json
import random
import re

import pytest
import torch
from torch import nn

import monolith as mono
from monolith.data import Schema
from monolith.embedding import AdagradOptimizer, ClippedOptimizer, PolynomialDecay, SgdOptimizer
from monolith.model import Lookup, LookupPlan, Mode, dense, dry_run, make_plan, make_tables, plan_differences
from tests.model.movie_model import MovieRanking

SCHEMA = Schema.of(uid="int64", mov="int64", label="float32")


class Lookups(mono.MonolithModel):
    """Looks up what it is told: `params` is a list of keyword arguments."""

    def model_fn(self, features, mode):
        parts = [torch.cat(self.lookup_embedding_slice(**one), dim=1) for one in self.params]
        pred = torch.cat(parts, dim=1).sum(1)
        return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())


def plan_of(*lookups, schema=SCHEMA):
    return make_plan(Lookups(list(lookups)), schema)


def test_one_table_per_feature_and_one_segment_per_slice_in_the_order_asked():
    plan = make_plan(MovieRanking({}), SCHEMA)
    assert plan.entries == (("uid", "vec", 8), ("mov", "vec", 8), ("mov", "bias", 1))
    tables = plan.tables()
    assert [segment.dim for segment in tables["mov"].segments] == [8, 1]
    assert tables["uid"].expire_days == 90
    assert [feature.occurrence_threshold for feature in plan.planned_tables] == [0, 3]


def test_tables_of_two_features_start_from_different_seeds():
    tables = make_plan(MovieRanking({}), SCHEMA).tables()
    assert tables["uid"].seed != tables["mov"].seed


EVERYTHING = (
    dict(features=["uid"], slice_dim=4, optimizer=SgdOptimizer(0.5), learning_rate_fn=PolynomialDecay(0.5, 10)),
    dict(features={"mov": 2, "uid": 3}, slice_name="second", learning_rate_fn=0.25),
)


PINNED = {
    "thresholds and two slices": (lambda: make_plan(MovieRanking({}), SCHEMA), 2898261128062775867),
    "rates of its own": (lambda: plan_of(*EVERYTHING), 17894899638131753910),
}


@pytest.mark.parametrize(("plan", "figure"), PINNED.values(), ids=PINNED)
def test_hashes_of_plans_stay_what_they_were(plan, figure):
    # Another figure means that no snapshot, export or server of before understands a process of now.
    assert plan().hash == figure
    assert LookupPlan.from_json(plan().to_json()).hash == figure


def test_the_hash_is_that_of_the_canonical_json():
    plan = plan_of(BASE)
    digest = hashlib.blake2b(plan.to_json().encode()).digest()
    assert plan.hash == int.from_bytes(digest[:8], "little")


def test_json_gives_the_plan_back():
    plan = plan_of(*EVERYTHING)
    again = LookupPlan.from_json(plan.to_json())
    assert again == plan
    assert again.hash == plan.hash
    assert again.tables() == plan.tables()
    assert again.tables()["uid"].learning_rate_values(0) == [0.5, 0.25]


def test_clipping_is_in_the_plan_and_not_in_its_hash():
    clipped = ClippedOptimizer(AdagradOptimizer(learning_rate=0.1), max_norm=0.3)
    plan, plain = (plan_of(dict(features=["uid"], slice_dim=4, optimizer=one)) for one in (clipped, clipped.optimizer))
    assert plan.hash == plain.hash and plan != plain
    assert '"maxGradientNorm":0.3' in plan.to_json()
    (segment,) = LookupPlan.from_json(plan.to_json()).tables()["uid"].segments
    assert segment.optimizer == clipped


@pytest.mark.parametrize("text", ["", "{}", "[]", "1", '{"format":1,"features":[{}],"tables":[]}'])
def test_text_that_is_no_plan_is_refused(text):
    with pytest.raises(ValueError, match="no lookup plan"):
        LookupPlan.from_json(text)


@pytest.mark.parametrize("found", [0, 2, '"1"', "null"])
def test_a_plan_of_another_format_is_refused_though_all_else_is_right(found):
    text = plan_of(BASE).to_json()
    assert text.count('"format":1,') == 1
    with pytest.raises(ValueError, match=r"no lookup plan \(ValueError: its format is .*, this version reads 1\)"):
        LookupPlan.from_json(text.replace('"format":1,', f'"format":{found},'))


@pytest.mark.parametrize("missing", ["features", "tables", "format"])
def test_a_plan_without_one_of_its_parts_is_refused(missing):
    values = json.loads(plan_of(BASE).to_json())
    values.pop(missing)
    with pytest.raises(ValueError, match=f"no lookup plan \\(KeyError: '{missing}'"):
        LookupPlan.from_json(json.dumps(values))


def test_a_feature_without_its_table_or_slice_is_found_at_once():
    for wrong in ({"table": "other"}, {"slices": ["other"]}):
        values = json.loads(plan_of(BASE).to_json())
        values["features"][0].update(wrong)
        with pytest.raises(ValueError, match="no lookup plan .*other"):
            LookupPlan.from_json(json.dumps(values))


BASE = dict(features=["uid"], slice_dim=4, optimizer=AdagradOptimizer(learning_rate=0.1))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (dict(slice_dim=5), r"uid\]\.slices\[vec\]\.segment\.dimSize: 4 there, 5 here"),
        (dict(optimizer=SgdOptimizer(0.1)), "uid.*adagrad.*absent here"),
        (dict(optimizer=AdagradOptimizer(learning_rate=0.2)), "uid.*learningRate: 0.1 there, 0.2 here"),
        (dict(slice_name="other"), r"uid\]\.slices\[vec\].*absent here"),
        (dict(features=["mov"]), "uid.*absent here"),
        (dict(learning_rate_fn=0.5), r"uid\]\.slices\[vec\]\.learning_rate: None there, 0.5 here"),
    ],
)
def test_another_plan_has_another_hash_and_says_what_differs(change, difference):
    before, after = plan_of(BASE), plan_of({**BASE, **change})
    assert before.hash != after.hash
    lines = plan_differences(after, before)
    assert any(re.search(difference, line) for line in lines), lines


def test_equal_plans_do_not_differ():
    assert plan_differences(plan_of(BASE), plan_of(BASE)) == []


def test_a_feature_the_schema_lacks_is_named_with_the_columns_there_are():
    with pytest.raises(ValueError, match=r"feature 'genre'.*no such column.*uid \(int64\), mov \(int64\)"):
        plan_of(dict(features=["genre"], slice_dim=4))


def test_a_feature_that_is_no_id_is_refused():
    with pytest.raises(ValueError, match="feature 'label'.*float32, and ids are int64"):
        plan_of(dict(features=["label"], slice_dim=4))


def test_one_slice_in_two_ways_is_refused():
    with pytest.raises(ValueError, match="'uid', slice 'vec' is looked up in two ways"):
        plan_of(BASE, {**BASE, "slice_dim": 5})


def test_the_same_slice_twice_is_one_entry():
    assert plan_of(BASE, BASE).entries == (("uid", "vec", 4),)


def test_a_model_that_looks_nothing_up_has_an_empty_plan():
    class Plain(mono.MonolithModel):
        def model_fn(self, features, mode):
            return mono.EstimatorSpec(label=None, pred=features["label"])

    assert make_plan(Plain(), SCHEMA).entries == ()


def test_a_wrong_lookup_in_predict_alone_is_an_error_too():
    class OnlyInPredict(mono.MonolithModel):
        def model_fn(self, features, mode):
            (rows,) = self.lookup_embedding_slice(["nope" if mode == mono.PREDICT else "uid"], slice_dim=1)
            return mono.EstimatorSpec(label=None, pred=rows, loss=rows.sum())

    with pytest.raises(ValueError, match="'nope'"):
        make_plan(OnlyInPredict(), SCHEMA)


def test_a_mode_that_cannot_run_is_left_out_with_a_warning():
    class TrainOnly(mono.MonolithModel):
        def model_fn(self, features, mode):
            if mode != mono.TRAIN:
                raise RuntimeError("no way")
            (rows,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
            return features["label"], rows.sum(), rows

    with pytest.warns(UserWarning, match="cannot run in mode .*no way"):
        tried = dry_run(TrainOnly(), SCHEMA)
    assert list(tried.specs) == [Mode.TRAIN]


def test_slices_asked_for_in_one_mode_alone_are_planned_too():
    class Modes(mono.MonolithModel):
        def model_fn(self, features, mode):
            (rows,) = self.lookup_embedding_slice(["uid"], slice_name=str(mode), slice_dim=1)
            return mono.EstimatorSpec(label=None, pred=rows, loss=rows.sum())

    assert [name for _, name, _ in make_plan(Modes(), SCHEMA).entries] == ["train", "eval", "predict"]


def test_a_dry_run_leaves_no_trace():
    model = MovieRanking({"dropout": 0.5})
    model.eval()
    before, drawn = copy.deepcopy(model.state_dict()), (torch.get_rng_state(), random.getstate())
    make_plan(model, SCHEMA)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn[0])
    assert random.getstate() == drawn[1]
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.slice_reader is None


def test_lookups_outside_model_fn_are_refused():
    with pytest.raises(RuntimeError, match="inside model_fn only"):
        Lookups([]).lookup_embedding_slice(["uid"], slice_dim=2)


@pytest.mark.parametrize("lookup", [dict(features="uid", slice_dim=2), dict(features=["uid"]), dict(features=[])])
def test_features_without_a_dim_or_a_list_are_refused(lookup):
    with pytest.raises(ValueError, match="ValueError for features"):
        plan_of(lookup)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(feature_name="a/b"), "file names"),
        (dict(feature_name="uid", occurrence_threshold=16), "0 to 15, got 16"),
        (dict(feature_name="uid", expire_time=-1), "expire_time"),
    ],
)
def test_columns_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        mono.MonolithModel().create_embedding_feature_column(**arguments)


def test_a_column_is_created_once():
    model = mono.MonolithModel()
    column = model.create_embedding_feature_column("uid", expire_time=3)
    assert model.create_embedding_feature_column("uid", expire_time=3) is column
    with pytest.raises(ValueError, match="'uid' was created before"):
        model.create_embedding_feature_column("uid")


@pytest.mark.parametrize(("out_type", "shape"), [("concat", (2, 8)), ("stack", (2, 2, 4)), ("add_n", (2, 4))])
def test_out_types_combine_features(out_type, shape):
    class Combined(mono.MonolithModel):
        def model_fn(self, features, mode):
            rows = self.lookup_embedding_slice(["uid", "mov"], slice_dim=4, out_type=out_type)
            return mono.EstimatorSpec(label=None, pred=rows, loss=rows.sum())

    assert dry_run(Combined(), SCHEMA).specs[Mode.PREDICT].pred.shape == shape


def test_a_lazy_layer_is_given_its_shape():
    class Lazy(mono.MonolithModel):
        def __init__(self):
            super().__init__()
            self.layer = nn.LazyLinear(1)

        def model_fn(self, features, mode):
            (rows,) = self.lookup_embedding_slice(["uid"], slice_dim=4)
            pred = self.layer(rows)
            return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())

    model = Lazy()
    make_plan(model, SCHEMA)
    assert model.layer.weight.shape == (1, 4)


def test_features_by_slot_in_groups_and_with_dims_of_their_own():
    schema = Schema.of(fc_slot_7="int64", uid="int64", mov="int64", label="float32")

    class Groups(mono.MonolithModel):
        def model_fn(self, features, mode):
            summed, alone = self.lookup_embedding_slice([[7, "uid"], ["mov"]], "vec", 4)
            wide = self.lookup_embedding_slice([["uid", "mov"]], "vec", 4, group_out_type="concat", out_type="concat")
            (bias,) = self.lookup_embedding_slice({"mov": 1}, "bias")
            self.shapes = [tuple(one.shape) for one in (summed, alone, wide, bias)]
            self.add_extra_output("both", {"sum": summed, "alone": alone})
            return mono.EstimatorSpec(label=None, pred=summed.sum(1), loss=(summed.sum() + wide.sum() + bias.sum()))

    model = Groups()
    plan = make_plan(model, schema)
    assert model.shapes == [(2, 4), (2, 4), (2, 8), (2, 1)]
    assert plan.entries == (("fc_slot_7", "vec", 4), ("uid", "vec", 4), ("mov", "vec", 4), ("mov", "bias", 1))
    tables = make_tables(plan)
    columns = {name: torch.tensor([1, 2, 3]) for name in ("fc_slot_7", "uid", "mov")}
    outputs = dense(model, Lookup(plan, tables).pull(columns).slices, columns)
    assert list(outputs) == ["pred", "both/sum", "both/alone"]


def test_an_extra_output_has_a_name_of_its_own():
    model = mono.MonolithModel()
    model.add_extra_output("a", torch.zeros(1))
    with pytest.raises(KeyError, match="key a exists!"):
        model.add_extra_output("a", torch.zeros(1))


def test_the_mode_of_a_spec_cannot_be_replaced():
    spec = mono.EstimatorSpec(label=None, pred=torch.zeros(2))
    assert spec._replace(head_name="ctr").head_name == "ctr"
    assert isinstance(spec._replace(loss=None), mono.EstimatorSpec)
    with pytest.raises(ValueError, match="mode of an EstimatorSpec cannot be changed"):
        spec._replace(mode="train")
