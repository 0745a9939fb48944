"""Activation functions by name; `get`, `serialize` and `deserialize` are what layers and configurations use."""

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from monolith.model.layers.layer import LazyLayer


class Activation(nn.Module):
    """A function of a tensor that knows how it was made."""

    def serialized(self) -> dict[str, Any]:
        """Return {name, params}, of which `deserialize` makes an equal one."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        settings = {name: getattr(self, name) for name in names if name not in ("args", "kwargs")}
        return {"name": type(self).__name__.lower(), "params": settings}


class _Plain(Activation):
    """An activation without settings."""

    function: Callable[[Tensor], Tensor]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the function of each element."""
        return type(self).function(inputs)


def _plain(name: str, function: Callable[[Tensor], Tensor], meaning: str) -> type[_Plain]:
    return type(name, (_Plain,), {"function": staticmethod(function), "__doc__": meaning, "__module__": __name__})


Exponential = _plain("Exponential", torch.exp, "eˣ.")
Gelu = _plain("Gelu", functional.gelu, "x·Φ(x).")
HardSigmoid = _plain("Hard_Sigmoid", lambda x: (0.2 * x + 0.5).clamp(0, 1), "0.2·x + 0.5, cut to [0, 1].")
Linear = _plain("Linear", lambda x: x, "x.")
Selu = _plain("Selu", functional.selu, "Scaled elu.")
Sigmoid = _plain("Sigmoid", torch.sigmoid, "1 / (1 + e⁻ˣ).")
Sigmoid2 = _plain("Sigmoid2", lambda x: 2 * torch.sigmoid(x), "2 / (1 + e⁻ˣ): 1 where x is 0.")
Softplus = _plain("Softplus", functional.softplus, "ln(1 + eˣ).")
Softsign = _plain("Softsign", functional.softsign, "x / (1 + |x|).")
Swish = _plain("Swish", functional.silu, "x·sigmoid(x).")
Tanh = _plain("Tanh", torch.tanh, "Hyperbolic tangent.")
ReLU = _plain("ReLU", torch.relu, "max(x, 0).")


class LeakyReLU(Activation):
    """x, and alpha·x below 0."""

    def __init__(self, alpha: float = 0.3) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the function of each element."""
        return functional.leaky_relu(inputs, self.alpha)


class ELU(Activation):
    """x, and alpha·(eˣ − 1) below 0."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the function of each element."""
        return functional.elu(inputs, self.alpha)


class Softmax(Activation):
    """Shares of eˣ along an axis."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, inputs: Tensor) -> Tensor:
        """Return shares that sum to 1."""
        return torch.softmax(inputs, self.axis)


class ThresholdedReLU(Activation):
    """x above theta, else 0."""

    def __init__(self, theta: float = 1.0) -> None:
        super().__init__()
        self.theta = theta

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the function of each element."""
        return functional.threshold(inputs, self.theta, 0.0)


class PReLU(LazyLayer, Activation):
    """x, and alpha·x below 0; alpha, one per column, is learned and starts at 0."""

    alpha: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_weight("alpha", "zeros")

    def initialize_parameters(self, inputs: Tensor) -> None:
        """Make one alpha per column."""
        self.make_weights(alpha=(inputs.shape[-1],))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the function of each element."""
        return inputs.clamp_min(0) + self.alpha * inputs.clamp_max(0)


ActivationFunction = Callable[[Tensor], Tensor]

_CLASSES: dict[str, type[Activation]] = {
    cls.__name__.lower(): cls
    for cls in (
        Exponential, Gelu, HardSigmoid, Linear, Selu, Sigmoid, Sigmoid2, Softplus, Softsign, Swish, Tanh, LeakyReLU,
        ReLU, ELU, Softmax, ThresholdedReLU, PReLU,
    )
}  # fmt: skip
_CLASSES["hardsigmoid"] = HardSigmoid


def get(identifier: Any) -> ActivationFunction | None:
    """Return an activation for a name in any case, a dict {name, params} or its text, a class or a function.

    A name gives a new object each time. None gives None.

    >>> get("ReLU")(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    >>> get("{'name': 'elu', 'params': {'alpha': 2.0}}").alpha
    2.0
    """
    if identifier is None:
        return None
    if isinstance(identifier, str) and identifier.lower() in _CLASSES:
        return _CLASSES[identifier.lower()]()
    if isinstance(identifier, Mapping):
        return deserialize(identifier)
    if isinstance(identifier, str) and identifier.startswith("{"):
        return deserialize(ast.literal_eval(identifier))
    if isinstance(identifier, type):
        return identifier()  # type: ignore[no-any-return]
    if callable(identifier):
        return identifier  # type: ignore[no-any-return]
    raise TypeError(
        f"Could not interpret activation function identifier: {identifier!r}; there are {', '.join(sorted(_CLASSES))}"
    )


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: ActivationFunction) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the function of the input."""
        return self.function(inputs)


def as_module(function: ActivationFunction) -> nn.Module:
    """Return a function as a step that other modules can hold."""
    return function if isinstance(function, nn.Module) else Function(function)


def serialize(activation: ActivationFunction | None) -> Any:
    """Return {name, params} of an activation, None for None; a function of another kind needs a known name."""
    if activation is None:
        return None
    if isinstance(activation, Activation):
        return activation.serialized()
    name = getattr(activation, "__name__", type(activation).__name__).lower()
    if name not in _CLASSES:
        raise ValueError(f"activation {activation!r} has no name of its own; there are {', '.join(sorted(_CLASSES))}")
    return {"name": name, "params": {}}


def deserialize(identifier: Mapping[str, Any]) -> ActivationFunction:
    """Return the activation of {name, params}."""
    name = identifier["name"]
    if name.lower() not in _CLASSES:
        raise TypeError(
            f"Could not interpret activation function identifier: {name!r}; there are {', '.join(sorted(_CLASSES))}"
        )
    return _CLASSES[name.lower()](**identifier.get("params", {}))
