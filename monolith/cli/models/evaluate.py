"""What `monolith evaluate` does."""

import json
import math
from collections.abc import Mapping
from typing import Any

import typer
from rich.progress import Progress
from rich.table import Table

from monolith.cli.console import console
from monolith.cli.models.estimators import estimator_of
from monolith.hooks import Hook, RunContext, StepValues


class _Bar(Hook):
    """Shows how many batches are done."""

    def __init__(self, steps: int | None) -> None:
        self._progress = Progress(console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("batches", total=steps)

    def after_create_session(self, context: RunContext) -> None:
        self._progress.start()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        self._progress.advance(self._task)

    def end(self, context: RunContext) -> None:
        self._progress.stop()


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Evaluate, and print the figures."""
    estimator = estimator_of(model, settings, own["params"])
    found = estimator.evaluate(
        steps=own["steps"],
        hooks=[_Bar(own["steps"])],
        checkpoint_path=own["checkpoint_path"],
        group_by=own["group_by"],
    )
    if own["json"]:
        # What is not known, such as the AUC of equal labels, is null: JSON has no NaN.
        typer.echo(json.dumps({name: value if math.isfinite(value) else None for name, value in found.items()}))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in found.items():
        table.add_row(name, f"{value:,.0f}" if name in ("num_events", "global_step") else f"{value:.5f}")
    console.print(table)
