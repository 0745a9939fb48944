"""Learning rates that change with the global step."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real

LearningRate = float | Callable[[int], float]
"""A constant, or a function of the global step."""


class LearningRateFunction(ABC):
    """A learning rate as a function of the global step.

    Equal functions have equal strings: the string is part of the key by which tables are merged.
    """

    @abstractmethod
    def __call__(self, global_step: int) -> float:
        """Return the learning rate of the step."""


@dataclass(frozen=True)
class PolynomialDecay(LearningRateFunction):
    """Goes from one learning rate to another in ``decay_steps`` steps, and stays there.

    With ``cycle`` the span is stretched to the next multiple of ``decay_steps`` instead, so the rate jumps up and
    falls again. ``name`` is for readers only: schedules that differ in nothing else are equal.

    >>> decay = PolynomialDecay(0.5, decay_steps=4, end_learning_rate=0.0)
    >>> [decay(step) for step in (0, 1, 4, 9)]
    [0.5, 0.375, 0.0, 0.0]
    """

    initial_learning_rate: float
    decay_steps: int
    end_learning_rate: float = 0.0001
    power: float = 1.0
    cycle: bool = False
    name: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.decay_steps <= 0:
            raise ValueError(f"PolynomialDecay: decay_steps must be positive, got {self.decay_steps}")
        for name in ("initial_learning_rate", "end_learning_rate", "power"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"PolynomialDecay: {name} must be finite, got {getattr(self, name)}")

    def __call__(self, global_step: int) -> float:
        """Return the learning rate of the step."""
        if global_step < 0:
            raise ValueError(f"PolynomialDecay: global_step must not be negative, got {global_step}")
        span = self.decay_steps
        if self.cycle:
            span *= max(1, math.ceil(global_step / self.decay_steps))
        left = 1 - min(global_step, span) / span
        return float((self.initial_learning_rate - self.end_learning_rate) * left**self.power + self.end_learning_rate)


def check_learning_rate(owner: str, rate: LearningRate) -> None:
    """Raise unless ``rate`` is a finite number or a function of the global step."""
    if callable(rate):
        return
    value: object = rate  # callers without a type checker may pass anything
    if not isinstance(value, Real):
        raise TypeError(f"{owner}: a learning rate is a number or a function of the global step, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{owner}: the learning rate must be finite, got {rate}")


def learning_rate_at(owner: str, rate: LearningRate, global_step: int) -> float:
    """Return the value of ``rate`` at the step; raises if it is not a finite number, before it can spoil a row."""
    value = float(rate(global_step) if callable(rate) else rate)
    if not math.isfinite(value):
        raise ValueError(f"{owner}: {rate} gives {value} at step {global_step}; a learning rate must be finite")
    return value
