"""Inputs by name: "module:callable", where the callable makes the source that a service reads."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from monolith.data.source import Source

SourceFactory = Callable[[], Source]


def load_input(name: str) -> SourceFactory:
    """Return the callable that "module:callable" names; the module is imported, nothing is evaluated.

    >>> load_input("monolith.data.synthetic:MovieEvents").__name__
    'MovieEvents'

    Raises:
        ValueError: The name has another form, or there is no such callable; the message says which.
    """
    module, _, path = name.partition(":")
    if not module or not path:
        raise ValueError(f"an input is named as 'module:callable', such as 'my_job.data:make_source', got {name!r}")
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ValueError(
            f"input {name!r}: there is no module {error.name!r}; start in the folder that holds it, or name that "
            "folder (--app-dir)"
        ) from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ValueError(f"input {name!r}: module {module!r} has no callable {path!r}")
    factory: SourceFactory = found
    return factory
