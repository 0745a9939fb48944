"""Our server with a constant in place of the model: what HTTP and the reading of requests cost.

`python -m benchmarks.serving.bare_server EXPORT_BASE READY_FILE NUM_CANDIDATES`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from monolith.export.serving_model import Question, ServingModel
from monolith.export.signature import Array
from monolith.serving.server import ServerConfig, serve


def main(export_base: Path, ready_file: Path, num_candidates: int) -> None:
    """Serve until the process is ended."""
    answer = np.linspace(0, 1, num_candidates, dtype=np.float32)

    def constant(model: ServingModel, questions: Sequence[Question]) -> list[dict[str, Array]]:
        return [{model.signature.outputs[0].name: answer}] * len(questions)

    ServingModel.predict_together = constant  # type: ignore[method-assign]
    serve(ServerConfig(export_base=export_base, port=0, ready_file=ready_file))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
