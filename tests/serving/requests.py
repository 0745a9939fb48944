"""Requests in the forms that a server takes."""

import json
from typing import Any

import httpx
import numpy as np

from tests.export.movie import request

INFER = "/v2/models/movie/infer"
PREDICT = "/v1/models/movie:predict"
DATATYPES = {"uid": "INT64", "mov": "INT64", "hour": "FP32"}


def infer_body(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    return {
        "id": "42",
        "inputs": [
            {"name": name, "shape": list(values.shape), "datatype": DATATYPES[name], "data": values.tolist()}
            for name, values in columns.items()
        ],
    }


def changed(part: str, **changes: Any) -> dict[str, Any]:
    """A request for two examples with some fields of one input changed; None removes one."""
    body = infer_body(request(2))
    tensor = next(tensor for tensor in body["inputs"] if tensor["name"] == part)
    tensor.update(changes)
    for name in [name for name, value in changes.items() if value is None]:
        del tensor[name]
    return body


def binary_body(columns: dict[str, np.ndarray], **fields: Any) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a request whose tensors follow the JSON as they lie in memory."""
    inputs = [
        {
            "name": name,
            "shape": list(values.shape),
            "datatype": DATATYPES[name],
            "parameters": {"binary_data_size": values.nbytes},
        }
        for name, values in columns.items()
    ]
    head = json.dumps({"inputs": inputs, **fields}).encode()
    tail = b"".join(values.tobytes() for values in columns.values())
    return head + tail, {"Inference-Header-Content-Length": str(len(head))}


def figures(client: httpx.Client) -> dict[str, float]:
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
