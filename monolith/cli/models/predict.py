"""What `monolith predict` does."""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from torch import Tensor

from monolith.cli.models.estimators import estimator_of
from monolith.cli.models.progress import ProgressHook


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Predict, and write a line per event; a file is there as a whole or not at all."""
    estimator = estimator_of(model, settings, own["params"])
    keys = own["predict_keys"].split(",") if own["predict_keys"] else None
    num_events = 0
    messages = Console(stderr=True)  # standard output may be the predictions
    batches = estimator.predict(
        keys,
        hooks=[ProgressHook("predicting", messages)],
        checkpoint_path=own["checkpoint_path"],
        yield_single_examples=False,
    )
    with _opened(own["output"]) as file:
        for found in batches:
            for line in _lines(found):
                file.write(line)
                num_events += 1
    messages.print(f"{num_events:,} predictions written to {own['output'] or 'standard output'}", soft_wrap=True)


def _lines(found: dict[str, Tensor]) -> Iterator[str]:
    columns: list[list[Any]] = [_json_values(values.tolist()) for values in found.values()]
    for row in zip(*columns, strict=True):
        yield json.dumps(dict(zip(found, row, strict=True))) + "\n"


def _json_values(values: Any) -> Any:
    """Return numbers with those that are not finite, which JSON has no words for, as None."""
    if isinstance(values, list):
        return [_json_values(value) for value in values]
    return values if math.isfinite(values) else None


@contextmanager
def _opened(path: str | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    temporary = Path(f"{path}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
