"""The dense part alone: the ONNX Runtime call against the same net in PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import Samples, interleave, timed
from benchmarks.serving.clicks import Clicks
from benchmarks.serving.sizes import ServingSizes
from monolith.export import load_newest_export
from monolith.export.dense_session import JOINED_ROWS
from monolith.export.description import Description
from monolith.model import dense
from monolith.model.zoo.click_model import NUM_DENSE


def measure_dense(base: Path, clicks: Clicks, sizes: ServingSizes) -> dict[str, Samples]:
    """Return the seconds of `num_calls` calls with the rows of one request, on one thread each."""
    model, _ = load_newest_export(base)
    rows = Description.read(base / str(model.version)).rows
    # As a request has them: every slice of every feature, per candidate.
    slices = {(row.feature, row.slice_name): torch.randn(sizes.num_candidates, row.dim) for row in rows.values()}
    numbers = torch.rand(sizes.num_candidates, NUM_DENSE)
    joined = torch.cat(list(slices.values()), dim=1).numpy()
    session = model._session
    fed = {JOINED_ROWS: np.ascontiguousarray(joined), "column/dense": numbers.numpy()}
    clicks.model.eval()
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def in_torch() -> None:
        with torch.inference_mode():
            dense(clicks.model, slices, {"dense": numbers})

    contenders = {"onnx": lambda: session.run(fed), "torch": in_torch}
    try:
        return interleave(
            {
                name: lambda _, call=call: timed(lambda: [call() for _ in range(sizes.num_calls)])  # type: ignore[misc]
                for name, call in contenders.items()
            },
            rounds=sizes.rounds,
        )
    finally:
        torch.set_num_threads(num_threads)
