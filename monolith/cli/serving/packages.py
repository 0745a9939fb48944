"""Modules that need the packages of `monolith-recsys[serving]`."""

from importlib import import_module
from typing import Any


def serving_module(name: str) -> Any:
    """Return a module of the server; an ImportError says what to install."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "monolith":
            raise
        raise ImportError(
            f"serving needs the package {error.name!r}, which is not installed: pip install 'monolith-recsys[serving]'"
        ) from error
