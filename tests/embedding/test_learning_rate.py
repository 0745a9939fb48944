"""PolynomialDecay."""

import math
from typing import Any

import pytest
import torch

from monolith.embedding import AdagradOptimizer, Segment, Table, TableConfig
from monolith.embedding.config.learning_rate import PolynomialDecay


def test_golden_figures() -> None:
    decay = PolynomialDecay(0.01, decay_steps=10, end_learning_rate=0.11)
    assert decay(1) == pytest.approx(0.02, rel=1e-12)
    assert decay(2) == pytest.approx(0.03, rel=1e-12)


def test_adagrad_steps_by_a_schedule_at_step_0() -> None:
    rows = Segment(2, AdagradOptimizer(initial_accumulator_value=0.1))
    table = Table(TableConfig(name="any", segments=(rows,), learning_rates=(PolynomialDecay(3.0, 10, 11.0),)))
    ids = torch.tensor([0, 1])
    table.assign(ids, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    for _ in range(3):
        table.apply_gradients(ids, torch.tensor([[0.1, 0.1], [0.01, 0.01]]), global_step=0)
    figures = torch.tensor([[-1.6026098728, -0.6026098728], [2.7156791687, 3.7156791687]])
    torch.testing.assert_close(table.lookup(ids), figures, rtol=1e-6, atol=1e-6)


def test_stays_at_the_end() -> None:
    decay = PolynomialDecay(1.0, 10, 0.25)
    assert (decay(0), decay(10), decay(1000)) == (1.0, 0.25, 0.25)


def test_power() -> None:
    assert PolynomialDecay(1.0, 4, 0.0, power=2.0)(2) == 0.25


def test_cycle_stretches_to_the_next_multiple() -> None:
    decay = PolynomialDecay(1.0, 10, 0.0, cycle=True)
    assert [decay(step) for step in (0, 5, 10, 15, 20)] == [1.0, 0.5, 0.0, 0.25, 0.0]


def test_equal_schedules_have_equal_strings() -> None:
    one, other = PolynomialDecay(0.01, 10, 0.11, name="a"), PolynomialDecay(0.01, 10, 0.11, name="b")
    assert one == other
    assert str(one) == str(other)
    assert str(one) != str(PolynomialDecay(0.01, 10, 0.12))
    assert str(one) != str(PolynomialDecay(0.01, 10, 0.11, cycle=True))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [((1.0, 0), "decay_steps must be positive"), ((math.nan, 1), "initial_learning_rate must be finite")],
)
def test_senseless_schedules_are_refused(arguments: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PolynomialDecay(*arguments)


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(ValueError, match="global_step must not be negative, got -1"):
        PolynomialDecay(1.0, 1)(-1)
