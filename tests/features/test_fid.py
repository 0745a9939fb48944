"""Fids: slots and signatures of both versions, on ints and on tensors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from monolith.features import fid as fids

SLOTS_V1 = st.integers(0, 1023)
SLOTS_V2 = st.integers(0, 32767)
INT64 = st.integers(-(2**63), 2**63 - 1)


def unsigned(value: int) -> int:
    return value % 2**64


def test_the_published_figure_of_extract_fid():
    assert fids.extract_fid(185, 4) == 1153447759131936
    assert fids.extract_fid(torch.tensor([185, 185]), 4).tolist() == [1153447759131936] * 2


@given(INT64, SLOTS_V2)
def test_extracted_fids_stay_in_their_slot(value, slot):
    assert fids.slot_of_v2(fids.extract_fid(value, slot)) == slot
    assert fids.extract_fid(torch.tensor([value]), slot).tolist() == [fids.extract_fid(value, slot)]


@given(SLOTS_V1, INT64)
def test_v1(slot, signature):
    fid = fids.make_fid_v1(slot, signature)
    assert unsigned(fid) == slot * 2**54 + signature % 2**54
    assert -(2**63) <= fid < 2**63
    assert fids.slot_of_v1(fid) == fids.slot_of_v1(unsigned(fid)) == slot
    assert fids.signature_of_v1(fid) == signature % 2**54


@given(SLOTS_V2, INT64)
def test_v2(slot, signature):
    fid = fids.make_fid_v2(slot, signature)
    assert fid == slot * 2**48 + signature % 2**48
    assert fid >= 0
    assert fids.slot_of_v2(fid) == slot
    assert fids.signature_of_v2(fid) == signature % 2**48


@given(SLOTS_V1, INT64, SLOTS_V2)
def test_v1_becomes_v2(slot, signature, other):
    fid = fids.make_fid_v1(slot, signature)
    assert fids.convert_fid_v1_to_v2(fid) == slot * 2**48 + signature % 2**48
    assert fids.convert_fid_v1_to_v2(unsigned(fid)) == fids.convert_fid_v1_to_v2(fid)
    assert fids.convert_fid_v1_to_v2(fid, slot=other) == other * 2**48 + signature % 2**48


@given(SLOTS_V1, SLOTS_V1, INT64)
def test_nothing_of_the_old_slot_stays_behind(old, new, signature):
    assert fids.switch_slot_v1(fids.make_fid_v1(old, signature), new) == fids.make_fid_v1(new, signature)
    assert fids.switch_slot_v2(fids.make_fid_v2(old, signature), new) == fids.make_fid_v2(new, signature)


@given(st.lists(INT64, max_size=8), SLOTS_V1)
def test_tensors_and_ints_agree(values, slot):
    tensor = torch.tensor(values, dtype=torch.int64)
    for function in (
        fids.slot_of_v1,
        fids.slot_of_v2,
        fids.signature_of_v1,
        fids.signature_of_v2,
        fids.convert_fid_v1_to_v2,
        fids.as_signed,
        lambda fid: fids.make_fid_v1(slot, fid),
        lambda fid: fids.make_fid_v2(slot, fid),
        lambda fid: fids.switch_slot_v1(fid, slot),
        lambda fid: fids.convert_fid_v1_to_v2(fid, slot),
    ):
        assert function(tensor).tolist() == [function(value) for value in values]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fids.make_fid_v1(1024, 1), r"^slot should be less than 1024, while got 1024$"),
        (lambda: fids.switch_slot_v1(1, 5000), r"^slot should be less than 1024, while got 5000$"),
        (lambda: fids.make_fid_v2(32768, 1), r"^slot should be less than 32768, while got 32768$"),
        (lambda: fids.extract_fid(1, 40000), "less than 32768"),
        (lambda: fids.make_fid_v2(-1, 1), "should not be negative"),
        (lambda: fids.slot_of_v1(2**64), "an id has 64 bits"),
        (lambda: fids.slot_of_v1(-(2**63) - 1), "an id has 64 bits"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_other_tensors_are_refused():
    with pytest.raises(TypeError, match=r"ids must be int64, got torch\.int32"):
        fids.slot_of_v2(torch.zeros(1, dtype=torch.int32))


def test_number_of_slots():
    assert fids.get_max_slot_number() == 32768
