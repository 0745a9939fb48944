"""Fid: a 64-bit id that carries its slot, so that ids of different features never meet.

| | slot | signature |
|---|---|---|
| v1 | top 10 bits | low 54 bits |
| v2 | 15 bits below the sign bit, which is clear | low 48 bits |

Every function takes a Python int or an int64 tensor and returns the same kind. Ids are signed int64 throughout; an int
from 2**63 on is taken as the unsigned writing of the same bits.
"""

from typing import TypeVar

import torch
from torch import Tensor

from monolith.features.string_hash import hash_bytes, hash_values

Fid = TypeVar("Fid", int, Tensor)
"""One id, or a tensor of ids."""

NUM_SLOTS_V1 = 1 << 10
"""Slots of v1 are 0 to 1023."""

NUM_SLOTS_V2 = 1 << 15
"""Slots of v2 are 0 to 32767; v1 slots keep their number."""

_BITS_V1, _BITS_V2 = 54, 48


def get_max_slot_number() -> int:
    """Return the number of slots there can be: 32768."""
    return NUM_SLOTS_V2


def make_fid_v1(slot: int, signature: Fid) -> Fid:
    """Return the v1 fid of a slot and the low 54 bits of a signature.

    >>> make_fid_v1(3, 5) == (3 << 54) | 5
    True
    """
    return _with_slot(signature, _checked_slot(slot, NUM_SLOTS_V1), _BITS_V1)


def make_fid_v2(slot: int, signature: Fid) -> Fid:
    """Return the v2 fid of a slot and the low 48 bits of a signature.

    >>> make_fid_v2(3, torch.tensor([5, -1])).tolist()
    [844424930131973, 1125899906842623]
    """
    return _with_slot(signature, _checked_slot(slot, NUM_SLOTS_V2), _BITS_V2)


def slot_of_v1(fid: Fid) -> Fid:
    """Return the slot of a v1 fid.

    >>> slot_of_v1(1023 << 54)
    1023
    """
    return (as_signed(fid) >> _BITS_V1) & (NUM_SLOTS_V1 - 1)


def slot_of_v2(fid: Fid) -> Fid:
    """Return the slot of a v2 fid."""
    return (as_signed(fid) >> _BITS_V2) & (NUM_SLOTS_V2 - 1)


def signature_of_v1(fid: Fid) -> Fid:
    """Return the low 54 bits."""
    return as_signed(fid) & ((1 << _BITS_V1) - 1)


def signature_of_v2(fid: Fid) -> Fid:
    """Return the low 48 bits."""
    return as_signed(fid) & ((1 << _BITS_V2) - 1)


def convert_fid_v1_to_v2(fid: Fid, slot: int | None = None) -> Fid:
    """Return the v2 fid of a v1 fid, in its own slot or in the one given; bits 48 to 53 of the signature are lost.

    >>> convert_fid_v1_to_v2(make_fid_v1(7, 9)) == make_fid_v2(7, 9)
    True
    """
    if slot is not None:
        return make_fid_v2(slot, fid)
    fid = as_signed(fid)
    return signature_of_v2(fid) | (slot_of_v1(fid) << _BITS_V2)


def switch_slot_v1(fid: Fid, slot: int) -> Fid:
    """Return the v1 fid with the same signature in another slot.

    Exactly the 54 bits of the signature are kept; the original kept one more, so that the lowest bit of the old slot
    stayed behind.
    """
    return make_fid_v1(slot, fid)


def switch_slot_v2(fid: Fid, slot: int) -> Fid:
    """Return the v2 fid with the same signature in another slot; exactly the 48 bits of the signature are kept.

    >>> slot_of_v2(switch_slot_v2(make_fid_v2(5, 1), 2))
    2
    """
    return make_fid_v2(slot, fid)


def extract_fid(value: Fid, slot: int) -> Fid:
    """Return the v2 fid of a raw value: slot, and 48 bits of the hash of its 8 little-endian bytes.

    The original masked the hash with 49 bits, so that half of all ids of an even slot landed in the next one. 48 bits
    give the same id wherever that bit is clear, as in its published figure:

    >>> extract_fid(185, 4)
    1153447759131936
    """
    if isinstance(value, Tensor):
        return make_fid_v2(slot, hash_values(value))
    return make_fid_v2(slot, hash_bytes(as_unsigned(value).to_bytes(8, "little")))


def as_signed(fid: Fid) -> Fid:
    """Return the same 64 bits as a signed number, which is how ids are kept.

    >>> as_signed(2**64 - 1), as_signed(5)
    (-1, 5)
    """
    if isinstance(fid, Tensor):
        if fid.dtype != torch.int64:
            raise TypeError(f"ids must be int64, got {fid.dtype}; uint64 tensors convert with .view(torch.int64)")
        return fid
    unsigned = as_unsigned(fid)
    return unsigned - (unsigned >> 63 << 64)


def as_unsigned(fid: int) -> int:
    """Return the same 64 bits as an unsigned number, which is how protos and literals have them.

    >>> as_unsigned(-1) == 2**64 - 1
    True
    """
    if not -(1 << 63) <= fid < 1 << 64:
        raise ValueError(f"an id has 64 bits, got {fid}")
    return fid & ((1 << 64) - 1)


def _with_slot(signature: Fid, slot: int, bits: int) -> Fid:
    return (as_signed(signature) & ((1 << bits) - 1)) | as_signed(slot << bits)


def _checked_slot(slot: int, num_slots: int) -> int:
    if slot >= num_slots:
        raise ValueError(f"slot should be less than {num_slots}, while got {slot}")
    if slot < 0:
        raise ValueError(f"slot should not be negative, while got {slot}")
    return slot
