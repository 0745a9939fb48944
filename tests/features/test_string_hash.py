"""CityHash64 of strings and values, against figures of the published implementation."""

import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from monolith._core import native
from monolith.features import hash_byte_rows, hash_bytes, hash_values, ids_of_texts
from monolith.tensors import Ragged

# From the reference library, version 1.1, one for each path and border: byte i of a string of n bytes is
# 7 i^2 + 3 i + n, modulo 256.
FIGURES = {
    0: 0x9AE16A3B2F90404F,
    1: 0x47A24C13B17E583E,
    3: 0xB85D3AFA43628B54,
    4: 0x53002EACCB1666E9,
    7: 0xA7FDA9664FB80BBF,
    8: 0xF7284C15F506526A,
    9: 0x4ED4EF3E5BCB1A3F,
    16: 0xED8B5C78F10AE537,
    17: 0x0B3AAA92493AF2BC,
    32: 0x4BF46C60F4A5A2B4,
    33: 0x1DA231641CB4639E,
    64: 0x67CFD62B28C6AF8C,
    65: 0x9DAE155D907502D4,
    128: 0x4A3478CB678A65DF,
    129: 0xE72AEC0E11B23074,
    200: 0x44888772E8AF7895,
}


def string_of(size: int) -> bytes:
    return bytes((7 * i * i + 3 * i + size) % 256 for i in range(size))


@pytest.mark.parametrize(("size", "figure"), FIGURES.items())
def test_figures(size, figure):
    assert native.city_hash64(string_of(size)) == figure
    assert hash_bytes(string_of(size)) % 2**64 == figure


def test_known_words():
    assert native.city_hash64(b"hello") == 13009744463427800296
    assert native.city_hash64((185).to_bytes(8, "little")) == 13054836967692514592


@given(st.lists(st.binary(max_size=150), max_size=20))
def test_a_column_hashes_like_its_strings(rows):
    assert hash_byte_rows(Ragged.from_bytes(rows)).tolist() == [hash_bytes(row) for row in rows]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_values_hash_like_their_bytes(values):
    expected = [hash_bytes(value.to_bytes(8, "little", signed=True)) for value in values]
    assert hash_values(torch.tensor(values, dtype=torch.int64)).tolist() == expected


def test_many_rows_are_hashed_by_several_threads():
    values = torch.arange(40000).view(200, 200).t()
    hashes = hash_values(values)
    assert hashes.shape == values.shape
    column = Ragged(values.contiguous().view(-1).view(torch.uint8), torch.arange(40001) * 8)
    assert torch.equal(hash_byte_rows(column), hashes.reshape(-1))
    assert hashes.unique().numel() == 40000


def test_other_types_are_refused():
    with pytest.raises(TypeError, match=r"uint8 values, got torch\.int64"):
        hash_byte_rows(Ragged.from_lists([[1]]))
    with pytest.raises(TypeError, match=r"must be int64, got torch\.int32"):
        hash_values(torch.zeros(1, dtype=torch.int32))
    with pytest.raises(ValueError, match="out has 1 entries but there are 2 strings"):
        native.city_hash64_values(torch.zeros(2, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))


def test_the_ids_on_the_page_are_those_made_here() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^\| `(.+?)`.*? \| (-?\d+) \| [0-9a-f]{16} \|$", page, re.MULTILINE))
    assert len(found) == 5
    assert ids_of_texts(found).tolist() == [int(id_) for id_ in found.values()]
    assert f"| {hash_bytes(b'')} |" in page


@pytest.mark.parametrize("value", [7.0, True, [7], float("nan")])
def test_what_is_neither_text_nor_a_whole_number_has_no_id(value: object) -> None:
    with pytest.raises(ValueError, match="neither text, bytes nor a whole number"):
        ids_of_texts([value])  # type: ignore[list-item]
