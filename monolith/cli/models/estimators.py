"""The estimator of a command: a model that is named, and settings from flags."""

import difflib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monolith.model.hyper_params import named_model
from monolith.train import Estimator
from monolith.train.config import RunnerConfig, command_line


def estimator_of(model: str, settings: Mapping[str, Any], params: str | None) -> Estimator:
    """Return an Estimator of the class that `load_model` finds, called with the JSON value `params`."""
    return Estimator(load_model(model), config_of(settings), params=_parsed(params))


def load_model(where: str) -> Any:
    """Return the class that "module:Class" names, or a registered model, also one in the current folder."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    module = where.partition(":")[0] if ":" in where else where.rpartition(".")[0]
    try:
        return named_model(where)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ImportError(
            f"there is no module {module!r}, neither installed nor in {here}; {_closest_module(module, where)}"
        ) from error


def _closest_module(module: str, where: str) -> str:
    """Return words that name the module that was meant, if there is one."""
    if module.endswith(".py"):
        return f"leave out .py: {where.replace('.py:', ':')}"
    near = difflib.get_close_matches(module, [path.stem for path in Path().glob("*.py")], n=1)
    return f"did you mean {near[0]}?" if near else "run the command in the folder of the model's file"


def config_of(settings: Mapping[str, Any]) -> RunnerConfig:
    """Return the configuration that flags describe."""
    with command_line(settings):
        return RunnerConfig()


def _parsed(params: str | None) -> Any:
    try:
        return None if params is None else json.loads(params)
    except ValueError as error:
        raise ValueError(f'--params must be a JSON value such as {{"units": 8}}, got {params!r}: {error}') from error
