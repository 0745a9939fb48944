"""First values of weights, by name or by object."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

Shape = Sequence[int]
LayerInitializer = Callable[..., Tensor]
"""Called with a shape and a dtype, returns a tensor."""

# The standard deviation of a normal distribution cut off at two standard deviations.
_TRUNCATED_STDDEV = 0.87962566103423978


@dataclass(frozen=True)
class Constant:
    """One value everywhere."""

    value: float = 0.0

    def __call__(self, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of this shape."""
        return torch.full(tuple(shape), self.value, dtype=dtype or torch.get_default_dtype())


@dataclass(frozen=True)
class Zeros(Constant):
    """Zeros."""


@dataclass(frozen=True)
class Ones(Constant):
    """Ones."""

    value: float = 1.0


@dataclass(frozen=True)
class RandomUniform:
    """Evenly between two values."""

    minval: float = -0.05
    maxval: float = 0.05
    seed: int | None = None

    def __call__(self, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of this shape."""
        return torch.empty(tuple(shape), dtype=dtype).uniform_(self.minval, self.maxval, generator=_source(self.seed))


@dataclass(frozen=True)
class RandomNormal:
    """Normally distributed."""

    mean: float = 0.0
    stddev: float = 0.05
    seed: int | None = None

    def __call__(self, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of this shape."""
        return torch.empty(tuple(shape), dtype=dtype).normal_(self.mean, self.stddev, generator=_source(self.seed))


@dataclass(frozen=True)
class TruncatedNormal:
    """Normally distributed; what lies more than two standard deviations off is drawn again."""

    mean: float = 0.0
    stddev: float = 0.05
    seed: int | None = None

    def __call__(self, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of this shape."""
        low, high = self.mean - 2 * self.stddev, self.mean + 2 * self.stddev
        made = torch.empty(tuple(shape), dtype=dtype)
        return torch.nn.init.trunc_normal_(made, self.mean, self.stddev, low, high, generator=_source(self.seed))


@dataclass(frozen=True)
class VarianceScaling:
    """Random, with a variance of scale / fan."""

    scale: float = 1.0
    mode: Literal["fan_in", "fan_out", "fan_avg"] = "fan_in"
    distribution: Literal["truncated_normal", "uniform"] = "truncated_normal"
    seed: int | None = None

    def __call__(self, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of this shape."""
        variance = self.scale / max(1.0, _fan(shape, self.mode))
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            return RandomUniform(-limit, limit, self.seed)(shape, dtype)
        return TruncatedNormal(0.0, math.sqrt(variance) / _TRUNCATED_STDDEV, self.seed)(shape, dtype)


@dataclass(frozen=True)
class _Scaled:
    seed: int | None = None
    scaling: ClassVar[VarianceScaling]

    def __call__(self, shape: Shape, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of this shape."""
        return replace(self.scaling, seed=self.seed)(shape, dtype)


class GlorotUniform(_Scaled):
    """Evenly between ±√(6 / (fan in + fan out))."""

    scaling = VarianceScaling(1.0, "fan_avg", "uniform")


class GlorotNormal(_Scaled):
    """Truncated normal, variance 2 / (fan in + fan out)."""

    scaling = VarianceScaling(1.0, "fan_avg", "truncated_normal")


class HeUniform(_Scaled):
    """Evenly between ±√(6 / fan in)."""

    scaling = VarianceScaling(2.0, "fan_in", "uniform")


class HeNormal(_Scaled):
    """Truncated normal, variance 2 / fan in."""

    scaling = VarianceScaling(2.0, "fan_in", "truncated_normal")


_CLASSES: dict[str, type] = {
    cls.__name__.lower(): cls
    for cls in (
        Constant, Zeros, Ones, RandomUniform, RandomNormal, TruncatedNormal, VarianceScaling,
        GlorotUniform, GlorotNormal, HeUniform, HeNormal,
    )
}  # fmt: skip


def get(identifier: Any) -> LayerInitializer | None:
    """Return an initializer for a name in any case, with or without underscores, a dict {name, params} or an object.

    >>> get("glorot_uniform")
    GlorotUniform(seed=None)
    """
    if identifier is None:
        return None
    if isinstance(identifier, str) and (cls := _CLASSES.get(identifier.lower().replace("_", ""))):
        return cls()  # type: ignore[no-any-return]
    if isinstance(identifier, Mapping) and (cls := _CLASSES.get(identifier["name"].lower())):
        return cls(**identifier.get("params", {}))  # type: ignore[no-any-return]
    if isinstance(identifier, type):
        return identifier()  # type: ignore[no-any-return]
    if callable(identifier):
        return identifier  # type: ignore[no-any-return]
    raise ValueError(f"Could not interpret initializer identifier: {identifier!r}; there are {sorted(_CLASSES)}")


def serialize(initializer: LayerInitializer | None) -> Any:
    """Return {name, params} of an initializer of this module; another one as it is."""
    if type(initializer) not in _CLASSES.values():
        return initializer
    return {"name": type(initializer).__name__, "params": asdict(initializer)}  # type: ignore[call-overload]


def _fan(shape: Shape, mode: str) -> float:
    """Return how many inputs or outputs a weight has; the last axis is the outputs, the one before the inputs."""
    if len(shape) < 2:
        inputs = outputs = math.prod(shape)
    else:
        others = math.prod(shape[:-2])
        inputs, outputs = others * shape[-2], others * shape[-1]
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        raise ValueError(f"mode must be 'fan_in', 'fan_out' or 'fan_avg', got {mode!r}")
    return {"fan_in": float(inputs), "fan_out": float(outputs), "fan_avg": (inputs + outputs) / 2}[mode]


def _source(seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator().manual_seed(seed)
