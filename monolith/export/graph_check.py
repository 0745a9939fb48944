"""Checks of an ONNX file before ONNX Runtime sees it: where its weights are, and what it takes and gives."""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message

from monolith.errors import CorruptFileError, shown
from monolith.export.signature import Array
from monolith.export.versions import WEIGHTS_FILE


@dataclass(frozen=True, slots=True)
class GraphInterface:
    """Names and types of what a graph takes and gives."""

    inputs: Mapping[str, onnx.TypeProto.Tensor]

    outputs: Mapping[str, onnx.TypeProto.Tensor]


def check_graph(path: Path, weights: Mapping[str, Array], graph_names: Mapping[str, str]) -> GraphInterface:
    """Return the inputs and outputs of a graph, after checking that it reads only the weights, at their places.

    Args:
        path: the .onnx file.
        weights: the weights of the file beside it.
        graph_names: for the weights that the graph reads, their names there.

    Raises:
        CorruptFileError: it is no ONNX file, or asks for bytes that are not those of a weight.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise CorruptFileError(f"{path} is no ONNX file: {error}") from error
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    if len(initializers) < len(model.graph.initializer):
        raise CorruptFileError(f"{path} has two weights of one name")
    constants = [tensor for name, tensor in initializers.items() if name not in graph_names.values()]
    for tensor in (*constants, *_inner_tensors(model)):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise CorruptFileError(f"{path}: {shown(tensor.name)}, which is no weight, has its data in another file")
    places = weight_places(path.with_name(WEIGHTS_FILE))
    for name, inner in graph_names.items():
        if name not in weights:
            raise CorruptFileError(f"{path} reads the weight {shown(name)}, which {WEIGHTS_FILE} does not have")
        if inner not in initializers:
            raise CorruptFileError(f"{path} has no weight {shown(inner)}")
        _check_weight(path, initializers[inner], weights[name], places[name])
    return GraphInterface(
        {value.name: value.type.tensor_type for value in model.graph.input},
        {value.name: value.type.tensor_type for value in model.graph.output},
    )


def weight_places(path: Path) -> dict[str, tuple[int, int]]:
    """Return, by weight of a safetensors file, where in the file it begins and how many bytes it has."""
    with path.open("rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
    places = {name: fields["data_offsets"] for name, fields in header.items() if name != "__metadata__"}
    return {name: (8 + header_bytes + begin, end - begin) for name, (begin, end) in places.items()}


def _inner_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor that is no initializer of the graph: of attributes, branches, loops, functions and so on."""
    waiting = [value for name, value in _messages(model) if name != "graph"]
    waiting += [value for name, value in _messages(model.graph) if name != "initializer"]
    while waiting:
        found = waiting.pop()
        if isinstance(found, onnx.TensorProto):
            yield found
        else:
            waiting += [value for _, value in _messages(found)]


def _messages(message: Message) -> Iterator[tuple[str, Message]]:
    for field, value in message.ListFields():
        if field.message_type is not None:
            yield from ((field.name, one) for one in ([value] if isinstance(value, Message) else value))


def _check_weight(path: Path, tensor: onnx.TensorProto, weight: Array, place: tuple[int, int]) -> None:
    said = {entry.key: entry.value for entry in tensor.external_data}
    offset, length = place
    wanted = {"location": WEIGHTS_FILE, "offset": str(offset), "length": str(length)}
    if tensor.data_location != onnx.TensorProto.EXTERNAL or said != wanted:
        raise CorruptFileError(f"{path}: weight {shown(tensor.name)} must be at {wanted}, it says {shown(said, 200)}")
    kind = onnx.helper.np_dtype_to_tensor_dtype(weight.dtype)
    if tuple(tensor.dims) != weight.shape or tensor.data_type != kind:
        raise CorruptFileError(
            f"{path}: weight {shown(tensor.name)} has the shape {shown(list(tensor.dims))}, in {WEIGHTS_FILE} "
            f"{list(weight.shape)} of {weight.dtype}"
        )
