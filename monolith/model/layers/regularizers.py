"""Penalties on the size of weights, by name or by object."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

Regularizer = Callable[[Tensor], Tensor]
"""Called with a weight, returns a scalar to be added to the loss."""


@dataclass(frozen=True)
class L1L2:
    """l1·Σ|w| + l2·Σw².

    >>> import torch
    >>> L1L2(l1=1.0, l2=2.0)(torch.tensor([1.0, -2.0]))
    tensor(13.)
    """

    l1: float = 0.0
    l2: float = 0.0

    def __call__(self, weight: Tensor) -> Tensor:
        """Return the penalty of a weight."""
        return self.l1 * weight.abs().sum() + self.l2 * weight.square().sum()


@dataclass(frozen=True)
class L1:
    """l1·Σ|w|."""

    l1: float = 0.01

    def __call__(self, weight: Tensor) -> Tensor:
        """Return the penalty of a weight."""
        return self.l1 * weight.abs().sum()


@dataclass(frozen=True)
class L2:
    """l2·Σw²."""

    l2: float = 0.01

    def __call__(self, weight: Tensor) -> Tensor:
        """Return the penalty of a weight."""
        return self.l2 * weight.square().sum()


_CLASSES: dict[str, type] = {"l1": L1, "l2": L2, "l1l2": L1L2}


def get(identifier: Any) -> Regularizer | None:
    """Return a regularizer for a name ("l1", "l2", "l1_l2"), a dict {name, params} or an object; None for None.

    >>> get("l2")
    L2(l2=0.01)
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
    raise ValueError(f"Could not interpret regularizer identifier: {identifier!r}; there are 'l1', 'l2', 'l1_l2'")


def serialize(regularizer: Regularizer | None) -> Any:
    """Return {name, params} of a regularizer of this module; another one as it is."""
    if type(regularizer) not in _CLASSES.values():
        return regularizer
    return {"name": type(regularizer).__name__, "params": asdict(regularizer)}  # type: ignore[call-overload]
