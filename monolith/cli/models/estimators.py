"""The estimator of a command: a model that is named, and settings from flags."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from monolith.launch.roles import load_class
from monolith.train import Estimator
from monolith.train.config import RunnerConfig, command_line


def estimator_of(model: str, settings: Mapping[str, Any], params: str | None) -> Estimator:
    """Return an Estimator of the class "module:Class", called with the JSON value `params`."""
    return Estimator(load_model(model), _config(settings), params=_parsed(params))


def load_model(where: str) -> Any:
    """Return the class that "module:Class" names, also one in the current folder."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    module = where.partition(":")[0]
    try:
        return load_class(where)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ImportError(
            f"there is no module {module!r}, neither installed nor in {here}; a model is named as 'module:Class'"
        ) from error


def _config(settings: Mapping[str, Any]) -> RunnerConfig:
    with command_line(settings):
        return RunnerConfig()


def _parsed(params: str | None) -> Any:
    try:
        return None if params is None else json.loads(params)
    except ValueError as error:
        raise ValueError(f'--params must be a JSON value such as {{"units": 8}}, got {params!r}: {error}') from error
