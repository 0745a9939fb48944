"""Comparisons of strings of bytes, all events at once."""

import torch
from torch import Tensor

from monolith.tensors import Ragged


def compare_bytes(rows: Ragged, operand: bytes) -> Tensor:
    """Return -1, 0 or 1 for each string that comes before, equals or comes after the operand, byte by byte.

    >>> rows = Ragged.from_lists([list(b"ab"), list(b"abc"), list(b"b"), []], torch.uint8)
    >>> compare_bytes(rows, b"abc").tolist()
    [-1, 0, 1, -1]
    """
    # The end of a string counts as a byte below all others: one place more than the operand has decides.
    width = len(operand) + 1
    wanted = torch.tensor([*operand, -1], dtype=torch.int16)
    difference = torch.sign(_columns(rows, width) - wanted)
    if not rows.num_rows:
        return torch.zeros(0, dtype=torch.int64)
    place = (difference != 0).to(torch.int8).argmax(1, keepdim=True)
    return difference.gather(1, place).squeeze(1).to(torch.int64)


def starts_with(rows: Ragged, prefix: bytes) -> Tensor:
    """Return which strings begin so."""
    return (_columns(rows, len(prefix)) == torch.tensor([*prefix], dtype=torch.int16)).all(1)


def ends_with(rows: Ragged, suffix: bytes) -> Tensor:
    """Return which strings end so."""
    places = rows.row_splits[1:, None] - len(suffix) + torch.arange(len(suffix))
    bytes_there = _bytes_at(rows, places, places >= rows.row_splits[:-1, None])
    return (bytes_there == torch.tensor([*suffix], dtype=torch.int16)).all(1)


def _columns(rows: Ragged, width: int) -> Tensor:
    """Return the first bytes of each string [events, width], -1 behind its end."""
    places = rows.row_splits[:-1, None] + torch.arange(width)
    return _bytes_at(rows, places, places < rows.row_splits[1:, None])


def _bytes_at(rows: Ragged, places: Tensor, is_there: Tensor) -> Tensor:
    if not len(rows.values):
        return torch.full(places.shape, -1, dtype=torch.int16)
    found = rows.values[places.clamp(0, len(rows.values) - 1)].to(torch.int16)
    return torch.where(is_there, found, torch.tensor(-1, dtype=torch.int16))
