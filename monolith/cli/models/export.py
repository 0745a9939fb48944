"""What `monolith export` does."""

from collections.abc import Sequence
from dataclasses import dataclass

from monolith.cli.console import console
from monolith.cli.models.estimators import estimator_of
from monolith.cli.models.flags import ModelFlags, parse_arguments
from monolith.train.config import setting


@dataclass(kw_only=True)
class ExportFlags(ModelFlags):
    """Flags of `monolith export` besides the settings."""

    checkpoint_path: str | None = setting(None, "Folder of the snapshot; the newest in model_dir if not given.")


def run(model: str, arguments: Sequence[str]) -> None:
    """Write a version, and print where it is and how to serve it."""
    settings, own = parse_arguments("export", model, arguments, ExportFlags)
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
