"""What `monolith train` does."""

from collections.abc import Sequence
from dataclasses import dataclass

from monolith.checkpoint import snapshot_path
from monolith.cli.console import console
from monolith.cli.models.estimators import estimator_of
from monolith.cli.models.flags import ModelFlags, parse_arguments
from monolith.train.config import setting


@dataclass(kw_only=True)
class TrainFlags(ModelFlags):
    """Flags of `monolith train` besides the settings."""

    steps: int | None = setting(None, "Steps to take in this run; to the end of the data if not given.")
    max_steps: int | None = setting(None, "Steps to take in all runs together.")


def run(model: str, arguments: Sequence[str]) -> None:
    """Train, and print how it ended."""
    settings, own = parse_arguments("train", model, arguments, TrainFlags)
    estimator = estimator_of(model, settings, own["params"])
    result = estimator.train(steps=own["steps"], max_steps=own["max_steps"])
    words = ", ".join(f"{name} {value:.4f}" for name, value in {"loss": result.loss, **result.metrics}.items())
    saved = snapshot_path(estimator.config.model_dir, result.global_step)
    # soft_wrap and no markup: a script may read the line.
    line = f"Trained to step {result.global_step}: {words}. Snapshot: {saved}"
    console.print(line, soft_wrap=True, markup=False, highlight=False)
