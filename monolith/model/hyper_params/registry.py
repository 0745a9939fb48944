"""Models that can be asked for by name."""

from typing import Any, TypeVar

from monolith.model.hyper_params.instantiable import InstantiableParams

Registered = TypeVar("Registered", bound="type[SingleTaskModelParams]")

_CLASSES: dict[str, type["SingleTaskModelParams"]] = {}


class SingleTaskModelParams:
    """A named configuration of one model; subclass it and return the model's parameters from `task`."""

    def task(self) -> InstantiableParams:
        """Return the parameters of the model; to be overridden."""
        raise NotImplementedError(f"{type(self).__name__} needs a task() that returns the parameters of its model")


def RegisterSingleTaskModel(cls: Registered) -> Registered:  # noqa: N802 - the name users know
    """Make a configuration known under its module path and class name; for use as a decorator."""
    key = f"{cls.__module__}.{cls.__qualname__}"
    known = _CLASSES.setdefault(key, cls)
    if known is not cls:
        raise ValueError(f"there is another model registered as {key}")
    return cls


def GetAllRegisteredClasses() -> dict[str, type[SingleTaskModelParams]]:  # noqa: N802
    """Return every registered configuration by its key."""
    return dict(_CLASSES)


def GetClass(key: str) -> type[SingleTaskModelParams]:  # noqa: N802
    """Return the configuration of a key; its end will do ("FFMParams" for "a.b.FFMParams") if no other key has it."""
    found = {one for name, one in _CLASSES.items() if name == key or name.endswith(f".{key}")}
    if len(found) == 1:
        return found.pop()
    if found:
        raise LookupError(f"model {key!r} could be any of {sorted(k for k in _CLASSES if k.endswith(f'.{key}'))}")
    raise LookupError(f"there is no model {key!r}; registered are {sorted(_CLASSES) or 'none'}")


def GetParams(key: str) -> Any:  # noqa: N802
    """Return the parameters of the model of a key."""
    return GetClass(key)().task()
