"""Batches of ids and configurations of layouts, written from a description."""

import pytest

from monolith.features.layouts import (
    FeatMeta,
    LayoutMeta,
    TableMeta,
    make_example_batch,
    make_feature_configs,
    standard_layouts,
)
from monolith.protos.example_pb2 import (
    CONCAT,
    FIRSTN,
    INDIVIDUAL,
    MEAN,
    NONE,
    SHARED,
    STACK,
    SUM,
    ExampleBatch,
    FeatureConfigs,
)

USER = TableMeta(name="user", slices=(("bias", 1), ("vec", 8), ("uffm", 4)))
ITEM = TableMeta(name="item", slices=(("bias", 1), ("iffm", 4), ("vec", 8)))
HISTORY = TableMeta(name="history", slices=(("vec", 16),))
FEATURES = {
    "f_uid": FeatMeta(slot=1, table=USER, shared=True),
    "f_age": FeatMeta(slot=1000, table=USER, shared=True, fid_version=1, pooling="mean"),
    "f_gid": FeatMeta(slot=200, table=ITEM),
    "f_tags": FeatMeta(slot=1001, table=ITEM, fid_version=1),
    "f_seen": FeatMeta(slot=30, table=HISTORY, pooling="first_n", max_sequence_length=5),
}


def test_a_batch_holds_a_list_per_row_or_one_for_all():
    batch = ExampleBatch.FromString(make_example_batch(FEATURES).SerializeToString())
    assert batch.batch_size == 10
    columns = {column.name: column for column in batch.named_feature_list}
    assert list(columns) == list(FEATURES)
    assert {name: (column.type, len(column.feature)) for name, column in columns.items()} == {
        "f_uid": (SHARED, 1),
        "f_age": (SHARED, 1),
        "f_gid": (INDIVIDUAL, 10),
        "f_tags": (INDIVIDUAL, 10),
        "f_seen": (INDIVIDUAL, 10),
    }


def test_ids_carry_their_slot_in_the_version_of_the_feature():
    columns = {column.name: column for column in make_example_batch(FEATURES, batch_size=3).named_feature_list}
    assert [feature.WhichOneof("type") for feature in columns["f_gid"].feature] == ["fid_v2_list"] * 3
    assert [feature.WhichOneof("type") for feature in columns["f_tags"].feature] == ["fid_v1_list"] * 3
    v2 = [fid for feature in columns["f_gid"].feature for fid in feature.fid_v2_list.value]
    assert v2 == [200 * 2**48 + number for number in range(6)]
    v1 = [fid for feature in columns["f_tags"].feature for fid in feature.fid_v1_list.value]
    assert v1 == [1001 * 2**54 + number for number in range(6)]  # beyond 2**63: fixed64 is unsigned


def test_rows_without_ids_are_still_lists():
    batch = make_example_batch({"f_gid": FEATURES["f_gid"]}, batch_size=2, num_ids_per_row=0)
    assert [f.WhichOneof("type") for f in batch.named_feature_list[0].feature] == ["fid_v2_list"] * 2


@pytest.mark.parametrize(("batch_size", "num_ids"), [(0, 1), (1, -1)])
def test_a_batch_needs_rows(batch_size, num_ids):
    with pytest.raises(ValueError, match="a batch needs rows with ids"):
        make_example_batch(FEATURES, batch_size, num_ids)


def slices_of(out):
    return [(config.feature_name, config.start, config.end) for config in out.slice_configs]


def shapes_of(out):
    return [list(shape.dims) for shape in out.shape]


def test_configurations_of_features():
    configs = FeatureConfigs.FromString(make_feature_configs(FEATURES).SerializeToString()).feature_configs
    found = {
        name: (config.table, list(config.slice_dims), config.pooling_type, config.max_sequence_length)
        for name, config in configs.items()
    }
    assert found == {
        "f_uid": ("user", [1, 8, 4], SUM, 0),
        "f_age": ("user", [1, 8, 4], MEAN, 0),
        "f_gid": ("item", [1, 4, 8], SUM, 0),
        "f_tags": ("item", [1, 4, 8], SUM, 0),
        "f_seen": ("history", [16], FIRSTN, 5),
    }


def test_configurations_of_layouts():
    outs = make_feature_configs(FEATURES).out_configs
    assert {name: out.out_type for name, out in outs.items()} == {
        "bias": CONCAT,
        "vec": CONCAT,
        "uffm": NONE,
        "iffm": NONE,
        "seq": NONE,
        "user_only": STACK,
    }
    assert slices_of(outs["bias"]) == [("f_uid", 0, 1), ("f_age", 0, 1), ("f_gid", 0, 1), ("f_tags", 0, 1)]
    assert shapes_of(outs["bias"]) == [[-1, 4]]
    assert slices_of(outs["vec"]) == [("f_uid", 1, 9), ("f_age", 1, 9), ("f_gid", 5, 13), ("f_tags", 5, 13)]
    assert shapes_of(outs["vec"]) == [[-1, 32]]
    assert slices_of(outs["uffm"]) == [("f_uid", 9, 13), ("f_age", 9, 13)]
    assert shapes_of(outs["uffm"]) == [[-1, 4], [-1, 4]]
    assert slices_of(outs["iffm"]) == [("f_gid", 1, 5), ("f_tags", 1, 5)]
    assert shapes_of(outs["iffm"]) == [[-1, 4], [-1, 4]]
    assert slices_of(outs["seq"]) == [("f_seen", 0, 16)]
    assert shapes_of(outs["seq"]) == [[-1, 5, 16]]
    assert slices_of(outs["user_only"]) == [("f_uid", 1, 9), ("f_age", 1, 9)]
    assert shapes_of(outs["user_only"]) == [[-1, 2, 8]]


def test_a_layout_without_slices_is_left_out():
    assert set(standard_layouts({"f_gid": FEATURES["f_gid"]})) == {"bias", "vec", "iffm"}


def test_slices_may_be_added_up():
    layout = LayoutMeta(joining="ADDN", slices=(("f_uid", "vec"), ("f_gid", "vec")))
    (shape,) = make_feature_configs(FEATURES, {"sum": layout}).out_configs["sum"].shape
    assert list(shape.dims) == [-1, 8]


@pytest.mark.parametrize(
    ("joining", "slices", "message"),
    [
        ("CONCAT", (("f_uid", "iffm"),), "layout 'l': there is no slice 'iffm' of feature 'f_uid'"),
        ("CONCAT", (("f_none", "vec"),), "there is no slice 'vec' of feature 'f_none'"),
        ("CONCAT", (), "layout 'l' has no slices"),
        ("CONCAT", (("f_seen", "vec"),), r"sequences \(first_n\) cannot be joined by CONCAT; use NONE"),
        ("ADDN", (("f_seen", "vec"),), "cannot be joined by ADDN"),
        ("STACK", (("f_uid", "vec"), ("f_uid", "bias")), r"STACK needs slices of one width, got \[8, 1\]"),
        ("ADDN", (("f_uid", "vec"), ("f_uid", "bias")), "ADDN needs slices of one width"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(joining, slices, message):
    with pytest.raises(ValueError, match=message):
        make_feature_configs(FEATURES, {"l": LayoutMeta(joining=joining, slices=slices)})


def test_descriptions_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="first_n goes with a positive max_sequence_length, got first_n and 0"):
        FeatMeta(slot=1, table=USER, pooling="first_n")
    with pytest.raises(ValueError, match="got sum and 3"):
        FeatMeta(slot=1, table=USER, max_sequence_length=3)
    with pytest.raises(ValueError, match="different names"):
        TableMeta(name="t", slices=(("a", 1), ("a", 2)))
    with pytest.raises(ValueError, match="widths of slices must be positive"):
        TableMeta(name="t", slices=(("a", 0),))
    with pytest.raises(ValueError, match="slot should be less than 1024, while got 2000"):
        make_example_batch({"x": FeatMeta(slot=2000, table=USER, fid_version=1)})
