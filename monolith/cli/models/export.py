"""What `monolith export` does."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from monolith.cli.console import console
from monolith.cli.models.estimators import estimator_of


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Write a version, and print where it is and how to serve it."""
    estimator = estimator_of(model, settings, own["params"])
    try:
        path = estimator.export_saved_model(dense_only=own["dense_only"], checkpoint_path=own["checkpoint_path"])
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "monolith":
            raise
        raise ImportError(
            f"exports need the package {error.name!r}, which is not installed: pip install 'monolith-recsys[serving]'"
        ) from error
    base = import_module("monolith.export.versions").base_of(path)
    line = f"Exported to {path}. Serve it with: monolith serve {base}"
    console.print(line, soft_wrap=True, markup=False, highlight=False)
