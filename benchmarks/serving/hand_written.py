"""The same model as one would serve it by hand: PyTorch and `nn.Embedding` behind FastAPI and uvicorn.

`python -m benchmarks.serving.hand_written SETTINGS READY_FILE`. It takes the same JSON as ours. Ids are row numbers
here: there is no table to look them up in.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from torch import Tensor, nn

from benchmarks.peers.clicks.nets import DeepFmNet
from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape


class Request(BaseModel):
    """A request: columns by name."""

    inputs: dict[str, list[int] | list[list[float]]]


class Model(nn.Module):
    """A table per feature, and the net."""

    def __init__(self, rows_per_table: int, dim: int, hidden: tuple[int, ...]) -> None:
        """Make random tables and layers."""
        super().__init__()
        shape = ClickShape(
            model="deepfm", folder="", batch_size=0, num_steps=0, table_rows=(), dim=dim, hidden=hidden,
            learning_rate=0, row_learning_rate=0, row_scale=0, accumulator=0, num_threads=1,
        )  # fmt: skip
        self.tables = nn.ModuleList(nn.Embedding(rows_per_table + 1, dim + 1) for _ in ID_NAMES)
        self.net = DeepFmNet(shape)

    def forward(self, ids: list[Tensor], dense: Tensor) -> Tensor:
        """Return the chance of a click per candidate; the user's ids are one."""
        num_rows = max(len(one) for one in ids)
        found = [table(one).expand(num_rows, -1) for table, one in zip(self.tables, ids, strict=True)]
        logit: Tensor = self.net(torch.stack(found, dim=1), dense.expand(num_rows, -1))
        return logit.sigmoid()


def make_app(model: Model) -> FastAPI:
    """Return the application."""
    app = FastAPI()

    # Not async: FastAPI then runs it in a thread, and other requests do not wait.
    @app.post("/predict")
    def predict(request: Request) -> dict[str, Any]:
        ids = [torch.tensor(request.inputs[name]) for name in ID_NAMES]
        with torch.inference_mode():
            return {"outputs": model(ids, torch.tensor(request.inputs["dense"])).tolist()}

    return app


def main(settings: dict[str, Any], ready_file: Path) -> None:
    """Serve on a free port until the process is ended."""
    # As our server does: requests are small, and more threads per request are slower.
    torch.set_num_threads(1)
    model = Model(settings["rows_per_table"], settings["dim"], tuple(settings["hidden"])).eval()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        config = uvicorn.Config(make_app(model), log_level="warning")
        ready_file.write_text(json.dumps({"host": "127.0.0.1", "port": sock.getsockname()[1]}))
        uvicorn.Server(config).run(sockets=[sock])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
