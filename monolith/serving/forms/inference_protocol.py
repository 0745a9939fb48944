"""The Open Inference Protocol, version 2, with Triton's extension for binary tensors.

A tensor has name, shape and datatype. Its values are JSON (`data`), or follow the JSON as they lie in memory, with
``parameters.binary_data_size`` bytes; then the header ``Inference-Header-Content-Length`` says where the JSON ends.
Serialized records are one tensor ``examples`` of datatype BYTES: as JSON in base64, or binary, each after its length.
An input NAME of lists is two tensors: NAME has the values of all lists end to end, NAME:lengths the length of each.
``parameters.signature`` of a request names the signature whose outputs it wants; without it, it gets all outputs.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith._core.native import JsonValue, city_hash64_prefixed, json_list
from monolith.errors import shown
from monolith.export.serving_model import ServingModel
from monolith.export.signature import (
    DATATYPES,
    LENGTHS,
    TEXT,
    Array,
    TensorSpec,
    checked_column,
    chosen_signature,
    datatype_name,
)
from monolith.serving.answer import Answer, Inquiry, require_finite
from monolith.serving.forms.json_values import checked_array, field, lists_of, read_object, text_field
from monolith.serving.forms.record_values import RECORDS, base64_records, framed_records, has_records_input
from monolith.serving.forms.signature_form import signatures_json
from monolith.tensors import Ragged

EXTENSIONS = ["binary_tensor_data"]
"""What ``GET /v2`` lists."""

MAX_DIMENSIONS = 32
"""Of a tensor; NumPy has no more."""


def model_metadata(model: ServingModel, versions: Sequence[ServingModel]) -> dict[str, Any]:
    """Return what ``GET /v2/models/{name}`` says of a version; `versions` are all in memory."""
    return {
        "name": model.name,
        "versions": [str(one.version) for one in versions],
        "platform": "monolith",
        "inputs": [spec.to_json() for spec in model.signature.request_tensors],
        "outputs": [spec.to_json() for spec in model.signature.outputs],
        "signatures": signatures_json(model),
        "records": model.record_format,
    }


def read_request(model: ServingModel, body: bytes, json_bytes: int | None = None) -> Inquiry:
    """Return what a request asks; a ValueError says which part of it is wrong.

    Args:
        model: what predicts.
        body: the request: JSON, and after it the values of binary tensors.
        json_bytes: how much of it is JSON; all if None.
    """
    if json_bytes is not None and json_bytes > len(body):
        raise ValueError(f"the JSON of the request has {json_bytes} bytes by its header, the whole body {len(body)}")
    request = read_object(body, json_bytes)
    binary = _Binary(body, len(body) if json_bytes is None else json_bytes)
    records = _read_records(model, request, binary)
    columns = _read_inputs(model, request, binary) if records is None else model.read_records(records)
    if not binary.is_at_end:
        raise ValueError(f"{len(body) - binary.place} bytes follow the last binary tensor")
    wanted = _read_outputs(model, request)
    request_id = text_field(request, "id") if request.member("id") is not None else None
    fields = {"model_name": model.name, "model_version": str(model.version)}
    if request_id is not None:
        fields["id"] = request_id
    return Inquiry(model.check(columns), partial(_answer, fields, wanted))


def _answer(fields: dict[str, str], wanted: Mapping[str, bool], predicted: Mapping[str, Array]) -> Answer:
    outputs = {name: np.ascontiguousarray(predicted[name]) for name in wanted}
    require_finite(outputs)
    tensors = [_tensor(name, outputs[name], is_binary) for name, is_binary in wanted.items()]
    head = _json(fields)[:-1] + b',"outputs":[' + b",".join(tensors) + b"]}"
    tails = [outputs[name].tobytes() for name, is_binary in wanted.items() if is_binary]
    return Answer(
        content=b"".join((head, *tails)),
        num_examples=len(next(iter(outputs.values()))),
        json_bytes=len(head) if tails else None,
    )


@dataclass(slots=True)
class _Binary:
    """The bytes after the JSON, taken tensor by tensor."""

    body: bytes

    place: int

    @property
    def is_at_end(self) -> bool:
        return self.place == len(self.body)

    def take_bytes(self, what: str, size: int) -> bytes:
        if size < 0 or size > len(self.body) - self.place:
            raise ValueError(f"{what}: {size} bytes of binary data are announced, {len(self.body) - self.place} follow")
        self.place += size
        return self.body[self.place - size : self.place]

    def take(self, what: str, size: int, datatype: str) -> Array:
        # A copy: memory of a message is read-only, and need not lie as numbers must.
        values = np.frombuffer(self.take_bytes(what, size), np.uint8).copy()
        if datatype == TEXT:
            return self._ids(what, values)
        dtype = DATATYPES[datatype].newbyteorder("<")
        if size % dtype.itemsize:
            raise ValueError(f"{what}: {size} bytes of binary data are no whole number of {datatype} values")
        if datatype == "BOOL":
            if values.size and values.max() > 1:
                raise ValueError(f"{what}: a BOOL is a byte 0 or 1, got {values.max()}")
        found: Array = values.view(dtype)
        if dtype.kind == "f" and not np.isfinite(found).all():
            raise ValueError(f"{what}: a value is NaN or infinite")
        return found

    def _ids(self, what: str, texts: Array) -> Array:
        try:
            ids: Array = city_hash64_prefixed(texts)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None
        return ids


def _read_inputs(model: ServingModel, request: JsonValue, binary: _Binary) -> dict[str, Tensor | Ragged]:
    tensors = _read_tensors(model, request, binary)
    columns: dict[str, Tensor | Ragged] = {}
    for spec in model.signature.inputs:
        missing = [one.name for one in spec.tensors() if one.name not in tensors]
        if not missing:
            columns[spec.name] = _joined(spec, tensors) if spec.has_lists else torch.from_numpy(tensors[spec.name])
        elif len(missing) < len(spec.tensors()):
            raise ValueError(
                f"input {missing[0]!r} is missing: the lists of {spec.name!r} are two tensors, {spec.name!r} with the "
                f"values of all lists end to end and {spec.name + LENGTHS!r} with the length of each"
            )
    return columns


def _read_records(model: ServingModel, request: JsonValue, binary: _Binary) -> list[bytes] | None:
    """Return the serialized records that a request has in place of columns, or None."""
    tensors = field(request, "inputs", "list").items(2)
    if len(tensors) != 1 or not has_records_input(model) or text_field(tensors[0], "name") != RECORDS:
        return None
    tensor = tensors[0]
    if text_field(tensor, "datatype") != TEXT:
        raise ValueError(f"input {RECORDS!r} must be {TEXT}: serialized records, one per element")
    size = _binary_size(RECORDS, tensor)
    if size is None:
        found = base64_records(field(tensor, "data", "list"))
    else:
        found = framed_records(f"input {RECORDS!r}", binary.take_bytes(f"input {RECORDS!r}", size))
    _in_shape(RECORDS, np.empty(len(found), np.bool_), field(tensor, "shape", "list"))
    return found


def _joined(spec: TensorSpec, tensors: Mapping[str, Array]) -> Ragged:
    values, lengths = (checked_column(one, tensors[one.name]) for one in spec.tensors())
    try:
        return lists_of(values, lengths)
    except ValueError as error:
        raise ValueError(f"input {spec.name!r}: {error}") from None


def _read_tensors(model: ServingModel, request: JsonValue, binary: _Binary) -> dict[str, Array]:
    specs = {spec.name: spec for spec in model.signature.request_tensors}
    columns: dict[str, Array] = {}
    # One more than there can be: then one of them is unknown, or given twice.
    for tensor in field(request, "inputs", "list").items(len(specs) + 1):
        name = text_field(tensor, "name")
        if name in columns:
            raise ValueError(f"input {shown(name)} is given twice")
        if name not in specs:
            raise ValueError(f"there is no input {shown(name)}; the inputs are {', '.join(specs) or 'none'}")
        datatype = text_field(tensor, "datatype")
        _check_datatype(specs[name], datatype)
        size = _binary_size(name, tensor)
        if size is None:
            values = checked_array(f"input {name!r}", field(tensor, "data", "list"), datatype, specs[name].missing)
        else:
            values = binary.take(f"input {name!r}", size, datatype)
        columns[name] = _in_shape(name, values, field(tensor, "shape", "list"))
    return columns


def _check_datatype(spec: TensorSpec, datatype: str) -> None:
    """Refuse a datatype that nothing is known about, and numbers where texts are wanted or the other way round."""
    if datatype not in DATATYPES and datatype != TEXT:
        raise ValueError(f"input {spec.name!r}: datatype {shown(datatype)} is unknown; it must be {spec.datatype}")
    if (datatype == TEXT) != (spec.datatype == TEXT):
        way_out = "send texts, as the training data had them" if spec.datatype == TEXT else "send numbers"
        raise ValueError(f"input {spec.name!r} must be {spec.datatype}, got {datatype}; {way_out}")


def _read_outputs(model: ServingModel, request: JsonValue) -> dict[str, bool]:
    """Return the outputs that the client wants, and of each whether as binary data."""
    known = _known_outputs(model, request)
    all_binary = _flag(request, "binary_data_output", default=False)
    if request.member("outputs") is None:
        return dict.fromkeys(known, all_binary)
    wanted: dict[str, bool] = {}
    for output in field(request, "outputs", "list").items(len(known) + 1):
        name = text_field(output, "name")
        if name not in known:
            raise ValueError(f"there is no output {shown(name)}; the outputs are {', '.join(known)}")
        if name in wanted:
            raise ValueError(f"output {shown(name)} is asked for twice")
        wanted[name] = _flag(output, "binary_data", default=all_binary)
    return wanted or dict.fromkeys(known, all_binary)


def _known_outputs(model: ServingModel, request: JsonValue) -> list[str]:
    """Return the outputs of the signature that ``parameters.signature`` names; without it, all of the model."""
    named = parameter(request, "signature")
    if named is None:
        return [output.name for output in model.signature.outputs]
    if named.kind != "text":
        raise ValueError(f"'signature' must be a text, got {named.shown()}")
    return list(chosen_signature(model.signatures, named.text()).outputs.values())


def parameter(value: JsonValue, name: str) -> JsonValue | None:
    """Return a member of an object's `parameters`, or None."""
    parameters = value.member("parameters")
    if parameters is None:
        return None
    if parameters.kind != "object":
        raise ValueError(f"'parameters' must be an object, got {parameters.shown()}")
    return parameters.member(name)


def _flag(value: JsonValue, name: str, *, default: bool) -> bool:
    found = parameter(value, name)
    if found is None:
        return default
    if found.kind != "bool":
        raise ValueError(f"{name!r} must be true or false, got {found.shown()}")
    return found.is_true


def _binary_size(name: str, tensor: JsonValue) -> int | None:
    found = parameter(tensor, "binary_data_size")
    if found is None:
        return None
    if found.kind != "number":
        raise ValueError(f"input {name!r}: binary_data_size must be a number of bytes, got {found.shown()}")
    if tensor.member("data") is not None:
        raise ValueError(f"input {name!r} has both data and binary data")
    return found.integer()


def _in_shape(name: str, values: Array, shape: JsonValue) -> Array:
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"input {name!r}: shape has {len(shape)} dimensions, {MAX_DIMENSIONS} at most are read")
    try:
        sizes: list[int] = shape.array("INT64").tolist()
        if any(not isinstance(size, int) or size < 0 for size in sizes):
            raise ValueError
    except ValueError:
        raise ValueError(f"input {name!r}: shape must be a list of sizes, got {_shown_list(shape)}") from None
    # Nested lists are allowed, and say the shape too.
    if values.ndim > 1 and list(values.shape) != sizes:
        raise ValueError(
            f"input {name!r}: its data have the shape {shown(list(values.shape))}, its shape says {shown(sizes)}"
        )
    if values.size != math.prod(sizes):
        raise ValueError(f"input {name!r}: shape {shown(sizes)} does not fit {values.size} values of data")
    return values.reshape(sizes)


def _shown_list(value: JsonValue) -> str:
    return f"[{', '.join(item.shown() for item in value.items(4))}{', ...' if len(value) > 4 else ''}]"


def _tensor(name: str, values: Array, is_binary: bool) -> bytes:
    fields: dict[str, Any] = {"name": name, "datatype": datatype_name(values.dtype), "shape": list(values.shape)}
    if is_binary:
        return _json({**fields, "parameters": {"binary_data_size": values.nbytes}})
    return _json(fields)[:-1] + b',"data":' + json_list(values.reshape(-1)) + b"}"


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
