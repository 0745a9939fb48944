"""Models by name: "module:Class", or a name of the registry."""

from importlib import import_module
from typing import Any

from monolith.model.hyper_params.instantiable import InstantiableParams
from monolith.model.hyper_params.registry import GetAllRegisteredClasses, GetClass, SingleTaskModelParams


def named_model(name: str) -> Any:
    """Return the class or the parameters of a model: of "module:Class", or of a registered configuration.

    The module is imported. "module.Class" means the same. The short name "Class" finds a registered configuration
    whose module is imported already. A class of `SingleTaskModelParams` stands for its `task()`.

    >>> named_model("monolith.model.zoo.movie_ranking:MovieRanking").__name__
    'MovieRanking'
    >>> named_model("monolith.model.zoo.ffm.FFMParams").train.per_replica_batch_size
    64
    """
    found = load_class(name) if ":" in name else _dotted(name)
    return found().task() if issubclass(found, SingleTaskModelParams) else found


def _dotted(name: str) -> Any:
    module, _, last = name.rpartition(".")
    if module:
        import_module(module)
    if any(f".{key}".endswith(f".{name}") for key in GetAllRegisteredClasses()):
        return GetClass(name)
    return load_class(f"{module}:{last}" if module else name)


def load_class(where: str) -> Any:
    """Return the class that "module:Class" names.

    >>> load_class("monolith.model.zoo.movie_ranking:MovieRanking").__name__
    'MovieRanking'
    """
    module, _, name = where.partition(":")
    if not module or not name:
        raise ValueError(f"a model is named as 'module:Class', got {where!r}; write, for example, ranking:Ranking")
    loaded = import_module(module)
    found = getattr(loaded, name, None)
    if not isinstance(found, type):
        own = [one for one, value in vars(loaded).items() if isinstance(value, type) and value.__module__ == module]
        raise ValueError(f"module {module!r} has no class {name!r}; its classes are: {', '.join(own) or 'none'}")
    return found


def class_of(model: Any) -> type:
    """Return the class of a model: of its parameters, of itself, or the class that was given.

    >>> class_of(named_model("monolith.model.zoo.ffm.FFMParams")).__name__
    'TestFFMModel'
    """
    if isinstance(model, InstantiableParams):
        found = model.cls
        return found if isinstance(found, type) else type(found)
    return model if isinstance(model, type) else type(model)
