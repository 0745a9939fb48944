"""The form of TensorFlow Serving: ``{"instances": [...]}`` by example, ``{"inputs": {...}}`` by column."""

from collections.abc import Mapping
from typing import Any

from monolith.export.serving_model import ServingModel
from monolith.export.signature import Column
from monolith.serving.json_values import checked_array, field

DEFAULT_SIGNATURE = "serving_default"


def predict(model: ServingModel, body: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the answer in the form of the request, and how many examples it had."""
    name = body.get("signature_name", DEFAULT_SIGNATURE)
    if name != DEFAULT_SIGNATURE:
        raise ValueError(f"there is no signature {name!r}; the only one is {DEFAULT_SIGNATURE!r}")
    if ("instances" in body) == ("inputs" in body):
        raise ValueError('a request has either "instances" (a list of examples) or "inputs" (an object of columns)')
    by_example = "instances" in body
    columns = (
        _from_examples(model, field(body, "instances", list)) if by_example else _from_columns(model, body["inputs"])
    )
    outputs = {name: values.tolist() for name, values in model.predict(columns).items()}
    num_examples = len(next(iter(columns.values()), ()))
    if by_example:
        return {"predictions": _by_example(outputs)}, num_examples
    return {"outputs": next(iter(outputs.values())) if len(outputs) == 1 else outputs}, num_examples


def model_status(model: ServingModel) -> dict[str, Any]:
    """Return what ``GET /v1/models/{name}`` says."""
    status = {"error_code": "OK", "error_message": ""}
    return {"model_version_status": [{"version": str(model.version), "state": "AVAILABLE", "status": status}]}


def _from_examples(model: ServingModel, examples: list[Any]) -> dict[str, Column]:
    """Examples are objects; where the model has one input, plain values too."""
    specs = model.signature.inputs
    if len(specs) == 1 and not any(isinstance(example, dict) for example in examples):
        return _from_columns(model, {specs[0].name: examples})
    for number, example in enumerate(examples):
        if not isinstance(example, dict):
            raise ValueError(f"instance {number} must be an object of inputs, got {example!r:.40}")
        if example.keys() != {spec.name for spec in specs}:
            wanted = ", ".join(spec.name for spec in specs)
            raise ValueError(f"instance {number} has the inputs {', '.join(example) or 'none'}; they must be {wanted}")
    return _from_columns(model, {spec.name: [example[spec.name] for example in examples] for spec in specs})


def _from_columns(model: ServingModel, columns: Any) -> dict[str, Column]:
    specs = model.signature.inputs
    if not isinstance(columns, dict):
        if len(specs) != 1:
            raise ValueError(f"'inputs' must be an object of columns: {', '.join(spec.name for spec in specs)}")
        columns = {specs[0].name: columns}
    return {
        name: checked_array(f"input {name!r}", field(columns, name, list), model.signature.input(name).datatype)
        for name in columns
    }


def _by_example(outputs: dict[str, list[Any]]) -> list[Any]:
    """Return a plain value per example where there is one output, else an object."""
    if len(outputs) == 1:
        return next(iter(outputs.values()))
    return [dict(zip(outputs, values, strict=True)) for values in zip(*outputs.values(), strict=True)]
