"""What ranks send each other with one message: means of tensors, and numbers that arrive as they are."""

from typing import Any

import pytest
import torch

from monolith.parallel.ranks import Exchange
from tests.parallel.ranks.running_ranks import run_ranks

NUMBERS = [0, 1, -1, 65_535, 1_685_000_000, (1 << 53) + 1, -(1 << 63), (1 << 63) - 1]
"""Floats hold the larger ones only in part."""


def average() -> list[Any]:
    """Return the means of tensors of several kinds, and what all ranks said with them."""
    exchange = Exchange()
    found: list[Any] = []
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        tensors = [torch.full((2, 3), float(exchange.rank), dtype=kind), torch.zeros(0, dtype=kind)]
        said = exchange.average(tensors, NUMBERS[exchange.rank :] + NUMBERS[: exchange.rank])
        found.append((tensors[0].tolist(), tensors[0].dtype == kind, said))
    found.append(exchange.average([], [exchange.rank]))
    found.append(exchange.average([torch.zeros(1)]))
    return found


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_numbers_travel_with_means_and_arrive_exactly(num_ranks, tmp_path):
    mean = (num_ranks - 1) / 2
    said = [NUMBERS[rank:] + NUMBERS[:rank] for rank in range(num_ranks)]
    for *kinds, alone, none in run_ranks(num_ranks, tmp_path, average):
        assert kinds == [([[mean] * 3] * 2, True, said)] * 3
        assert alone == [[rank] for rank in range(num_ranks)]
        assert none == [[]] * num_ranks
