"""What a demo has shown, in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from monolith.cli.demo.asking import MODEL_NAME, Comparison, FreshnessMeter


def summary_lines(
    comparison: Comparison,
    meter: FreshnessMeter,
    status: Mapping[str, Any],
    *,
    folder: Path,
    url: str,
    keep_running: bool,
) -> list[str]:
    """Return the summary: how far ahead the live model is, how fresh, how fast, where things are, what to try."""
    live, frozen = comparison.auc("live"), comparison.auc("frozen")
    p50, p99 = np.quantile(comparison.answer_seconds, [0.5, 0.99]) * 1000
    rows = sum(status["rows"].values())
    lines = [
        "",
        "What you saw",
        f"  Ahead   AUC {live:.3f} live, {frozen:.3f} for a copy that stopped learning when the demo began "
        f"({live - frozen:+.3f}), on {comparison.num_predictions:,} events that had not happened yet",
        f"  Fresh   an event changes the served answer after {meter.quantile(0.5):.2f} s (median), "
        f"{meter.quantile(0.99):.2f} s (99 %), from {len(meter.seconds)} probes over HTTP",
        f"  Fast    {status['events_per_second']:,.0f} events/s trained; {len(comparison.answer_seconds)} requests "
        f"answered in {p50:.1f} ms (median), {p99:.1f} ms (99 %)",
        f"  Rows    {rows:,} rows, each id its own, in {status['memory_bytes'] / 1e6:.1f} MB",
        f"  Files   {folder}: events/ (log), model/ (snapshots), export/ (served versions), job/ (logs)",
        "",
    ]
    return lines + (_while_running(url) if keep_running else _next_steps())


def _while_running(url: str) -> list[str]:
    inputs = ", ".join(
        f'{{"name": "{name}", "shape": [1], "datatype": "INT64", "data": [{value}]}}'
        for name, value in (("uid", 7), ("mov", 42))
    )
    return [
        "It goes on until Ctrl-C. In another terminal:",
        f"  curl {url}/v2/models/{MODEL_NAME}/infer -d '{{\"inputs\": [{inputs}]}}'",
        f"  curl {url}/metrics",
    ]


def _next_steps() -> list[str]:
    return [
        "Next",
        "  monolith demo --keep-running   the same, and a server to ask with curl",
        "  monolith demo --resume         go on from the last snapshot, exactly",
        "  docs/serving.md                the files and requests; examples/movie_ranking.py is a model to start from",
    ]
