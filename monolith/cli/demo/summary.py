"""What a demo has shown, in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from monolith.cli.demo.asking import MODEL_NAME, Comparison, FreshnessMeter
from monolith.cli.demo.folder import TrainerSize


def next_steps(size: TrainerSize) -> list[str]:
    """Return what to try when nothing runs any more."""
    steps = {
        f"monolith demo{size.flags} --keep-running": "the same, and a server to ask with curl",
        f"monolith demo{size.flags} --resume": "go on from the last snapshot, exactly",
        "docs/serving.md": "the files and requests; examples/movie_ranking.py is a model to start from",
    }
    if size.num_ps:
        steps["docs/jobs.md"] = "parameter servers and workers; `monolith launch` runs a model of yours on them"
    width = max(len(step) for step in steps)
    return ["Next", *(f"  {step:{width}}   {words}" for step, words in steps.items())]


def summary_lines(
    comparison: Comparison, meter: FreshnessMeter, status: Mapping[str, Any], fastest: float, *, folder: Path
) -> list[str]:
    """Return the summary: how far ahead the live model is, how fresh, how fast, and where things are."""
    live, frozen = comparison.auc("live"), comparison.auc("frozen")
    p50, p99 = np.quantile(comparison.answer_seconds, [0.5, 0.99]) * 1000
    rate = status["events_per_second"]
    caught_up = f" ({fastest:,.0f} while it caught up)" if fastest > 2 * rate else ""
    return [
        "",
        "What you saw",
        f"  Ahead   AUC {live:.3f} live, {frozen:.3f} for a copy that stopped learning at the start "
        f"({live - frozen:+.3f}), on events that had not happened yet",
        f"  Fresh   an event changes the served answer after {meter.quantile(0.5):.2f} s (median), "
        f"{meter.quantile(0.99):.2f} s (99 %); {len(meter.seconds)} probes over HTTP",
        f"  Fast    {rate:,.0f} events/s trained{caught_up}; {comparison.num_predictions:,} predictions in "
        f"{len(comparison.answer_seconds)} requests, each {p50:.1f} ms (median), {p99:.1f} ms (99 %)",
        f"  Rows    {sum(status['rows'].values()):,}, one per id, in {status['memory_bytes'] / 1e6:.1f} MB",
        f"  Files   {folder}: events/ (log), model/ (snapshots), export/ (served versions), job/ (logs)",
        "",
    ]


def lines_while_running(url: str) -> list[str]:
    """Return what to try while the demo goes on."""
    inputs = ", ".join(
        f'{{"name": "{name}", "shape": [1], "datatype": "INT64", "data": [{value}]}}'
        for name, value in (("uid", 7), ("mov", 42))
    )
    return [
        "It goes on until Ctrl-C. In another terminal:",
        f"  curl {url}/v2/models/{MODEL_NAME}/infer -d '{{\"inputs\": [{inputs}]}}'",
        f"  curl {url}/metrics",
    ]
