"""What `monolith evaluate` does."""

import json
import math
from collections.abc import Mapping
from typing import Any

import typer
from rich.table import Table

from monolith.cli.console import console
from monolith.cli.models.estimators import estimator_of
from monolith.cli.models.progress import ProgressHook


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Evaluate, and print the figures."""
    estimator = estimator_of(model, settings, own["params"])
    found = estimator.evaluate(
        steps=own["steps"],
        hooks=[ProgressHook("evaluating", console)],
        checkpoint_path=own["checkpoint_path"],
        group_by=own["group_by"],
    )
    if own["json"]:
        # What is not known, such as the AUC of equal labels, is null: JSON has no NaN.
        typer.echo(json.dumps({name: value if math.isfinite(value) else None for name, value in found.items()}))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in found.items():
        is_count = name in ("num_events", "global_step")
        table.add_row(name, "unknown" if math.isnan(value) else f"{value:,.0f}" if is_count else f"{value:.5f}")
    console.print(table)
