"""Ids crossed, moved and looked up."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolith.data.transforms import (
    FeatureCombine,
    GenFidMask,
    MapId,
    SwitchSlot,
    feature_combine,
    gen_fid_mask,
    map_id,
    switch_slot,
)
from monolith.data.transforms.functions import switch_slot_batch
from monolith.tensors import Ragged
from tests.data.transforms.events import check_in_a_chain, events

INT64 = st.integers(-(2**63), 2**63 - 1)


def crossed(a, b, slot, bits):
    product = (a * b) % 2**128
    signature = ((product >> 64) ^ product) % 2**bits
    value = (slot << bits) | signature
    return value - 2**64 if value >= 2**63 else value


@settings(max_examples=50)
@given(st.lists(st.tuples(st.lists(INT64, max_size=3), st.lists(INT64, max_size=3)), min_size=1, max_size=5))
def test_crossing_is_the_folded_product_of_all_pairs(rows):
    src1, src2 = (Ragged.from_lists([row[side] for row in rows], torch.int64) for side in (0, 1))
    for version, slot, bits in ((2, 77, 48), (1, 900, 54)):
        expected = [[crossed(a, b, slot, bits) for a in first for b in second] for first, second in rows]
        assert feature_combine(src1, src2, slot, version).to_list() == expected


def test_crossing_in_a_chain():
    batch = events(a=[[1, 2], [3], []], b=[[5], [], [7]])
    changed = FeatureCombine("a", "b", 3)(batch)
    assert changed.columns["a_b"].to_list() == [[(3 << 48) | 5, (3 << 48) | 10], [], []]
    check_in_a_chain(FeatureCombine("a", "b", 3, "cross"), batch)
    with pytest.raises(ValueError, match="slot should be less than 32768"):
        FeatureCombine("a", "b", 32768)(batch)
    with pytest.raises(ValueError, match="2 rows cannot be paired with 1"):
        feature_combine(Ragged.from_lists([[1], [2]]), Ragged.from_lists([[1]]), 1)


def test_ids_move_to_another_slot_with_their_whole_signature():
    signature = 2**48 - 1
    moved = switch_slot(Ragged.from_lists([[(5 << 48) | signature], []]), 2)
    assert moved.to_list() == [[(2 << 48) | signature], []]
    assert switch_slot(Ragged.from_lists([[(5 << 54) | 9]]), 2, 1).to_list() == [[(2 << 54) | 9]]


def test_slots_of_several_columns():
    batch = events(a=[[(1 << 48) | 4]], b=[[(2 << 48) | 5]])
    changed = switch_slot_batch(batch, {"a": (True, 9), "b": (False, 8)})
    assert {name: rows.to_list() for name, rows in changed.columns.items()} == {
        "a": [[(9 << 48) | 4]],
        "b": [[(2 << 48) | 5]],
        "b_share": [[(8 << 48) | 5]],
    }
    check_in_a_chain(SwitchSlot({"a": (False, 9)}, suffix="copy"), batch)
    with pytest.raises(ValueError, match="SwitchSlot: there is no column 'c'"):
        SwitchSlot({"c": (True, 1)})(batch)


@settings(max_examples=50)
@given(st.dictionaries(st.integers(-5, 5), INT64, min_size=1), st.lists(st.integers(-6, 6)))
def test_a_dictionary_maps_ids(mapping, values):
    mapped = map_id(torch.tensor(values, dtype=torch.int64), mapping, -7)
    assert mapped.tolist() == [mapping.get(value, -7) for value in values]


def test_mapping_in_a_chain():
    batch = events(a=[[1, 2], [], [3]], b=[1, 2, 9])
    assert MapId("a", {1: 10, 3: 30})(batch).columns["a"].to_list() == [[10, -1], [], [30]]
    assert MapId("b", {1: 10}, 0, "c")(batch).columns["c"].tolist() == [10, 0, 0]
    assert map_id(Ragged.from_lists([[1], []]), {1: 2}).to_list() == [[2], []]
    check_in_a_chain(MapId("a", {1: 10}, output="c"), batch)
    with pytest.raises(ValueError, match="map_dict is empty"):
        MapId("a", {})
    with pytest.raises(TypeError, match="MapId: column 'x' must be int64, got float32"):
        MapId("x", {1: 2})(events(x=[0.5]))


def test_masks_of_an_id():
    assert gen_fid_mask(Ragged.from_lists([[1, 2], [2, 2], [], [-1]]), 2).tolist() == [1, 1, 0, 0]
    assert gen_fid_mask(Ragged.from_lists([[1], [-1]]), 2**64 - 1).tolist() == [0, 1]
    check_in_a_chain(GenFidMask("a", 2, "has_2"), events(a=[[1, 2], []]))
