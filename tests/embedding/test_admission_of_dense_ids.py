"""Ids that are consecutive numbers are told apart as well as random ones."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from monolith.embedding.admission import (
    HASH_FILTER_CAPACITY,
    FilterType,
    SlotOccurrenceThresholdConfig,
    create_hash_filter,
    create_hash_filters,
)

NUM_IDS = 200_000
ONCE = SlotOccurrenceThresholdConfig(default_occurrence_threshold=1)

KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "sequential": lambda numbers: numbers,
    "of_a_slot": lambda numbers: numbers + (5 << 48),
    "negative": lambda numbers: -1 - numbers,
    "every_thousandth": lambda numbers: numbers * 1000,
    "above_bit_17": lambda numbers: numbers << 17,
    "above_bit_32": lambda numbers: numbers << 32,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("capacity", "most"), [(HASH_FILTER_CAPACITY, 0.0001), (250_000, 0.006)])
def test_ids_seen_once_get_no_row(kind: str, capacity: int, most: float) -> None:
    """At the smaller capacity chance gives 0.4 % of random ids a cell of another id."""
    admission = create_hash_filter(capacity, 7, ONCE)
    let_in = ~admission.should_be_filtered(KINDS[kind](torch.arange(NUM_IDS)))
    assert let_in.double().mean().item() <= most


def test_random_ids_have_the_same_rate() -> None:
    ids = torch.randint(-(2**63), 2**63 - 1, (NUM_IDS,), generator=torch.Generator().manual_seed(0))
    let_in = ~create_hash_filter(250_000, 7, ONCE).should_be_filtered(ids)
    assert 0.002 < let_in.double().mean().item() < 0.006


def test_servers_do_not_admit_in_step() -> None:
    """Draws of a probabilistic filter depend on its seed; the same on every server would let the same ids in."""
    often = SlotOccurrenceThresholdConfig(default_occurrence_threshold=2)
    filters = create_hash_filters(3, True, often, filter_type=FilterType.PROBABILISTIC_FILTER)
    draws = [[one.native_filter.should_be_filtered(7, 1, 2) for _ in range(200)] for one in filters]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        same = sum(a == b for a, b in zip(draws[first], draws[second], strict=True))
        assert 60 < same < 140
