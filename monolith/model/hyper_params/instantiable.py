"""Params that know which class they are of, and make one."""

import inspect
from collections.abc import Iterator
from types import MethodType
from typing import Any, TypeVar

from monolith.model.hyper_params.params import Params
from monolith.model.hyper_params.spelling import to_snake_case

Class = TypeVar("Class", bound=type)

_EMPTY = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class InstantiableParams(Params):
    """Settings of a class; `instantiate` makes an object of it.

    >>> class Layer:
    ...     def __init__(self, units, bias=True):
    ...         self.units, self.bias = units, bias
    >>> params(Layer).set(units=4).instantiate().units
    4
    """

    def __init__(self, cls: type | None = None) -> None:
        """Begin with the class alone."""
        super().__init__()
        self.define("cls", cls, "The class that these parameters are of.")

    def instantiate(self, **arguments: Any) -> Any:
        """Return a new object: of a class that takes `params`, made with these; of another, made with their values."""
        if self.cls is None:
            raise ValueError("these parameters have no class; set cls first")
        accepted = _arguments(self.cls)
        if "params" in accepted:
            return self.cls(self, **arguments)
        known = {name: value for name, value in self.iter_params() if name in accepted}
        return self.cls(**{**known, **arguments})


def params(cls: type) -> InstantiableParams:
    """Return parameters of a class: those of its nearest base that has some, and its constructor's arguments.

    Arguments of base classes' constructors count too. A default of the class replaces that of a base.
    """
    found = _base_params(cls)
    found.cls = cls
    if "name" not in found:
        found.define("name", None, "Name of the object.")
    found.name = to_snake_case(cls.__name__)
    holders = dict(_holders(found))
    for name, parameter in _arguments(cls).items():
        given = parameter.default is not _EMPTY
        if name == "params":
            continue
        if name in holders:
            if given:
                holders[name].set(**{name: parameter.default})
        else:
            found.define(name, parameter.default if given else None, name)
    if "allowed_kwargs" not in found:
        found.define("allowed_kwargs", None, "Further keyword arguments that the constructor takes.")
    return found


def with_params(cls: Class) -> Class:
    """Give a class the method `params`; for use as a decorator."""
    cls.params = MethodType(params, cls)  # type: ignore[attr-defined]
    return cls


def _base_params(cls: type) -> InstantiableParams:
    for base in cls.__mro__[1:]:
        method = base.__dict__.get("params")
        if callable(getattr(method, "__func__", method)) and not isinstance(method, property):
            made = base.params()  # type: ignore[attr-defined]
            if isinstance(made, InstantiableParams):
                return made
    return InstantiableParams(cls)


def _arguments(cls: type) -> dict[str, inspect.Parameter]:
    """Return the arguments of the constructors of a class and its bases, those of bases first."""
    found: dict[str, inspect.Parameter] = {}
    for base in reversed(cls.__mro__):
        constructor = base.__dict__.get("__init__")
        # Classes that come from elsewhere, such as torch's Module, are not set by parameters.
        if base is object or not inspect.isfunction(constructor) or base.__module__.startswith("torch."):
            continue
        for name, parameter in list(inspect.signature(constructor).parameters.items())[1:]:
            if parameter.kind not in _VARIADIC:
                found[name] = parameter
    return found


def _holders(found: Params) -> Iterator[tuple[str, Params]]:
    """Yield each name with the settings it is defined in, those further inside first."""
    for _, value in found.iter_params():
        if isinstance(value, Params):
            yield from _holders(value)
    for name, _ in found.iter_params():
        yield name, found
