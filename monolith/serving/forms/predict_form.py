"""The form of TensorFlow Serving: ``{"instances": [...]}`` by example, ``{"inputs": {...}}`` by column.

``"signature_name"`` selects outputs; by default they are the heads of the model, ``serving_default``.
An input of lists has a JSON list per example, of any length. An example may be a serialized record, ``{"b64": "..."}``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith._core.native import JsonValue, json_list, json_objects
from monolith.errors import shown
from monolith.export.serving_model import ServingModel
from monolith.export.signature import Array, NamedOutputs, TensorSpec, chosen_signature
from monolith.serving.answer import Answer, Inquiry, require_finite
from monolith.serving.forms.json_values import checked_array, checked_lists, field, lists_of, read_object, text_field
from monolith.serving.forms.record_values import RECORDS, base64_records, has_records_input, records_in
from monolith.tensors import Ragged


def read_request(model: ServingModel, body: bytes, json_bytes: int | None = None) -> Inquiry:
    """Return what a request asks, to be answered in its form; a ValueError says which part of it is wrong."""
    if json_bytes is not None:
        raise ValueError("binary tensors belong to /v2/models/NAME/infer; this form has none")
    request = read_object(body)
    outputs = _signature(model, request).outputs
    instances, inputs = request.member("instances"), request.member("inputs")
    if (instances is None) == (inputs is None):
        raise ValueError('a request has either "instances" (a list of examples) or "inputs" (an object of columns)')
    if inputs is not None:
        form, records = _by_column, _records_of_inputs(model, inputs)
    else:
        form, records = _by_example, records_in(model, field(request, "instances", "list"))
    if records is not None:
        columns = model.read_records(records)
    elif inputs is not None:
        columns = _from_columns(model, inputs)
    else:
        columns = _from_examples(model, field(request, "instances", "list"))
    return Inquiry(model.check(columns), partial(_answer, form, outputs))


def _signature(model: ServingModel, request: JsonValue) -> NamedOutputs:
    is_named = request.member("signature_name") is not None
    return chosen_signature(model.signatures, text_field(request, "signature_name") if is_named else None)


def _answer(
    form: Callable[[dict[str, Array]], bytes], names: Mapping[str, str], predicted: Mapping[str, Array]
) -> Answer:
    outputs = {name: np.ascontiguousarray(predicted[own]) for name, own in names.items()}
    require_finite(outputs)
    return Answer(content=form(outputs), num_examples=len(next(iter(outputs.values()))))


def model_status(versions: Sequence[ServingModel]) -> dict[str, Any]:
    """Return what ``GET /v1/models/{name}`` says of versions that are in memory."""
    status = {"error_code": "OK", "error_message": ""}
    return {
        "model_version_status": [
            {"version": str(one.version), "state": "AVAILABLE", "status": status} for one in versions
        ]
    }


def _from_examples(model: ServingModel, examples: JsonValue) -> dict[str, Tensor | Ragged]:
    """Examples are objects; where the model has one input, plain values too."""
    specs = model.signature.inputs
    if len(specs) == 1 and all(first.kind != "object" for first in examples.items(1)):
        return {specs[0].name: _column(specs[0], examples)}
    found = examples.columns([(spec.name, spec.datatype, spec.has_lists, spec.missing) for spec in specs])
    return {
        spec.name: lists_of(*column) if isinstance(column, tuple) else torch.from_numpy(column)
        for spec, column in zip(specs, found, strict=True)
    }


def _records_of_inputs(model: ServingModel, inputs: JsonValue) -> list[bytes] | None:
    """Return the records of ``[{"b64": ...}]`` or ``{"examples": [...]}``; None if the inputs are columns."""
    is_named = inputs.kind == "object" and len(inputs) == 1 and has_records_input(model)
    if is_named and inputs.names(1) == [RECORDS]:
        return base64_records(field(inputs, RECORDS, "list"))
    return records_in(model, inputs)


def _from_columns(model: ServingModel, columns: JsonValue) -> dict[str, Tensor | Ragged]:
    specs = {spec.name: spec for spec in model.signature.inputs}
    if columns.kind != "object":
        if len(specs) != 1 or columns.kind != "list":
            raise ValueError(f"'inputs' must be an object of columns: {', '.join(specs)}")
        return {name: _column(spec, columns) for name, spec in specs.items()}
    # One more than there can be: then one of them is unknown, or given twice.
    names = columns.names(len(specs) + 1)
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise ValueError(f"input {shown(twice)} is given twice")
    for name in names:
        if name not in specs:
            model.signature.input(name)  # raises, with the names that there are
    return {name: _column(specs[name], field(columns, name, "list")) for name in names}


def _column(spec: TensorSpec, values: JsonValue) -> Tensor | Ragged:
    what = f"input {spec.name!r}"
    if spec.has_lists:
        return checked_lists(what, values, spec.datatype, spec.missing)
    return torch.from_numpy(checked_array(what, values, spec.datatype, spec.missing))


def _by_example(outputs: dict[str, Array]) -> bytes:
    """Return a plain value per example where there is one output, else an object."""
    if len(outputs) == 1:
        return b'{"predictions":' + json_list(next(iter(outputs.values()))) + b"}"
    prefixes = [f"{',' if number else '{'}{json.dumps(name)}:" for number, name in enumerate(outputs)]
    return b'{"predictions":' + json_objects(list(zip(prefixes, outputs.values(), strict=True))) + b"}"


def _by_column(outputs: dict[str, Array]) -> bytes:
    if len(outputs) == 1:
        return b'{"outputs":' + json_list(next(iter(outputs.values()))) + b"}"
    members = [json.dumps(name).encode() + b":" + json_list(values) for name, values in outputs.items()]
    return b'{"outputs":{' + b",".join(members) + b"}}"
