"""Exports changed by somebody who knows how they are protected."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from monolith._core import native
from monolith.export.description import FileCheck


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change model.json and give it the right checksum."""
    fields = json.loads((path / "model.json").read_text())
    del fields["crc32c"]
    change(fields)
    crc = native.crc32c(json.dumps(fields, sort_keys=True).encode())
    (path / "model.json").write_text(json.dumps({**fields, "crc32c": crc}))


def rewrite_graph(path: Path, change: Callable[[onnx.ModelProto], object]) -> None:
    """Change dense.onnx and give it the right checksum."""
    model = onnx.load_model(path / "dense.onnx", load_external_data=False)
    change(model)
    (path / "dense.onnx").write_bytes(model.SerializeToString())
    found = FileCheck.of(path / "dense.onnx")
    rewrite(
        path, lambda fields: fields["files"].update({"dense.onnx": {"bytes": found.num_bytes, "crc32c": found.crc32c}})
    )
