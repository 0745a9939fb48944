"""The Open Inference Protocol, version 2, as JSON: tensors with name, shape, datatype and data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from monolith.export.serving_model import ServingModel
from monolith.export.signature import DATATYPES, Column, datatype_name
from monolith.serving.json_values import checked_array, field


def model_metadata(model: ServingModel) -> dict[str, Any]:
    """Return what ``GET /v2/models/{name}`` says."""
    return {
        "name": model.name,
        "versions": [str(model.version)],
        "platform": "monolith",
        **model.signature.to_json(),
    }


def read_inputs(model: ServingModel, body: Mapping[str, Any]) -> dict[str, Column]:
    """Return the columns of a request; a ValueError says which part is wrong."""
    columns = {}
    for tensor in field(body, "inputs", list):
        name = field(tensor, "name", str)
        if name in columns:
            raise ValueError(f"input {name!r} is given twice")
        spec = model.signature.input(name)
        datatype = field(tensor, "datatype", str)
        if datatype not in DATATYPES:
            raise ValueError(f"input {name!r}: datatype {datatype!r} is unknown; it must be {spec.datatype}")
        values = checked_array(f"input {name!r}", field(tensor, "data", list), datatype)
        columns[name] = _in_shape(name, values, field(tensor, "shape", list))
    return columns


def infer(model: ServingModel, body: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the answer to a request, and how many examples it had."""
    columns = read_inputs(model, body)
    wanted = [field(output, "name", str) for output in field(body, "outputs", list)] if "outputs" in body else []
    known = [output.name for output in model.signature.outputs]
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no output {name!r}; the outputs are {', '.join(known)}")
    outputs = model.predict(columns)
    answer = {
        "model_name": model.name,
        "model_version": str(model.version),
        "outputs": [_tensor(name, outputs[name]) for name in wanted or known],
    }
    if "id" in body:
        answer["id"] = field(body, "id", str)
    return answer, len(next(iter(columns.values()), ()))


def _in_shape(name: str, values: Column, shape: list[Any]) -> Column:
    if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape):
        raise ValueError(f"input {name!r}: shape must be a list of sizes, got {shape}")
    # Nested lists are allowed, and say the shape too.
    if values.ndim > 1 and list(values.shape) != shape:
        raise ValueError(f"input {name!r}: its data have the shape {list(values.shape)}, its shape says {shape}")
    if values.size != int(np.prod(shape, dtype=object)):
        raise ValueError(f"input {name!r}: shape {shape} does not fit {values.size} values of data")
    return values.reshape(shape)


def _tensor(name: str, values: Column) -> dict[str, Any]:
    return {
        "name": name,
        "datatype": datatype_name(values.dtype),
        "shape": list(values.shape),
        "data": values.reshape(-1).tolist(),
    }
