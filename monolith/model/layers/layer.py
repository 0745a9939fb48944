"""What all layers have: a name, weights made when the first input comes, losses of their own, and a configuration."""

import inspect
from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol, Self, TypedDict, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from monolith.model.hyper_params.spelling import to_snake_case
from monolith.model.layers import initializers, regularizers
from monolith.model.layers.lazy_parameter import fill, lazy_parameter


@runtime_checkable
class Serializable(Protocol):
    """What can be said in plain values, such as an activation."""

    def serialized(self) -> dict[str, Any]:
        """Return {name, params}."""
        ...


class LayerOptions(TypedDict, total=False):
    """What every layer takes besides its own arguments."""

    name: str | None
    dtype: torch.dtype | None


class Layer(nn.Module):
    """A module with a name, a configuration, and losses of its own.

    `layer_losses()` and `regularization_loss()` are not added to the model's loss by themselves: give them to
    `MonolithModel.add_loss` in `model_fn`.
    """

    def __init__(self, name: str | None = None, dtype: torch.dtype | None = None) -> None:
        """Keep the name, by default that of the class, and the dtype of the weights, by default torch's."""
        super().__init__()
        self.name = name or to_snake_case(type(self).__name__)
        self.dtype = dtype
        self._losses: list[Tensor] = []
        self._regularizers: dict[str, regularizers.Regularizer] = {}

    def layer_losses(self) -> list[Tensor]:
        """Return the losses of the last forward pass, those of layers inside too; empty for most layers."""
        return [loss for layer in self.modules() if isinstance(layer, Layer) for loss in layer._losses]

    def regularization_loss(self) -> Tensor:
        """Return the sum of the regularizers of all weights, those of layers inside too; 0 if there are none."""
        found = [
            regularizer(getattr(layer, weight))
            for layer in self.modules()
            if isinstance(layer, Layer)
            for weight, regularizer in layer._regularizers.items()
        ]
        if found:
            return torch.stack(found).sum()
        weight = next(self.parameters(), None)
        return torch.zeros((), device=None if weight is None else weight.device)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments this layer was made with, in plain values where there are such."""
        names = [
            name
            for cls in type(self).__mro__
            if issubclass(cls, Layer)
            for name, parameter in inspect.signature(cls.__init__).parameters.items()
            if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        return {name: _plain(getattr(self, name)) for name in dict.fromkeys(names)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return a new layer of what `get_config` returned."""
        return cls(**config)

    def extra_repr(self) -> str:
        """Return the layer's name."""
        return self.name

    def __getstate__(self) -> dict[str, Any]:
        # Losses belong to a forward pass; a copy of the layer has not run.
        return {**self.__dict__, "_losses": []}


class LazyLayer(LazyModuleMixin, Layer):
    """A layer whose weights get their shape from the first input, or from a snapshot, whichever comes first.

    The parameters are there from the beginning, without a shape: an optimizer made of them before the first pass is
    right. A subclass calls `add_weight` in its constructor and `make_weights` in `initialize_parameters`.
    """

    def __init__(self, **options: Any) -> None:
        """Begin without weights."""
        super().__init__(**options)
        self._initializers: dict[str, initializers.LayerInitializer] = {}

    def add_weight(self, name: str, initializer: Any, regularizer: Any = None) -> None:
        """Add a weight that has no shape yet."""
        chosen = initializers.get(initializer)
        if chosen is None:
            raise ValueError(f"layer {self.name!r}: weight {name!r} needs an initializer")
        self._initializers[name] = chosen
        self.register_parameter(name, lazy_parameter(self.dtype))
        if regularizer is not None:
            self._regularizers[name] = regularizers.get(regularizer)  # type: ignore[assignment]

    def make_weights(self, **shapes: tuple[int, ...]) -> None:
        """Give weights their shapes and first values; those that have some keep them."""
        for name, shape in shapes.items():
            weight = getattr(self, name)
            if is_lazy(weight):
                fill(weight, shape, self._initializers[name](shape))

    def make_norm(self, kernel: str, norm: str) -> None:
        """Give the weight `norm` the lengths of the columns of the weight `kernel`."""
        if is_lazy(getattr(self, norm)):
            lengths = getattr(self, kernel).detach().norm(dim=-2)
            fill(getattr(self, norm), tuple(lengths.shape), lengths)


def normalized_columns(kernel: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Return a kernel [..., in, out] whose columns have length 1; one shorter than √epsilon stays shorter."""
    return kernel * kernel.square().sum(-2, keepdim=True).clamp_min(epsilon).rsqrt()


def _plain(value: Any) -> Any:
    """Return a value of a configuration in dicts, lists and texts, as far as it can be said so."""
    if isinstance(value, Serializable):
        return value.serialized()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return initializers.serialize(regularizers.serialize(value))
