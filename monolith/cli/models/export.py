"""What `monolith export` does."""

from collections.abc import Mapping
from typing import Any

from monolith.cli.console import console
from monolith.cli.models.estimators import estimator_of


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Write a version, and print where it is and how to serve it."""
    estimator = estimator_of(model, settings, own["params"])
    try:
        path = estimator.export_saved_model(checkpoint_path=own["checkpoint_path"])
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "monolith":
            raise
        raise ImportError(
            f"exports need the package {error.name!r}, which is not installed: pip install 'monolith-recsys[serving]'"
        ) from error
    line = f"Exported to {path}. Serve it with: monolith serve {path.parent}"
    console.print(line, soft_wrap=True, markup=False, highlight=False)
