"""The dense part of a model as an ONNX graph: rows and feature columns in, predictions out.

Every parameter and buffer stays a value of its own in the graph, under its own name, and is listed among the graph's
inputs too. ONNX Runtime then folds none of them away and takes other values for them with each call.
"""

import copy
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from monolith.export.signature import Array, NamedOutputs, TensorSpec, datatype_name
from monolith.model.base import MonolithModel
from monolith.model.batch_columns import ColumnsToServe
from monolith.model.dense import run_dense
from monolith.model.extra_outputs import SERVING_DEFAULT, output_name
from monolith.model.modes import Mode
from monolith.model.plan.slices import SliceKey
from monolith.model.spec import EstimatorSpec, heads, predictions

WEIGHT_PREFIX = "model."
"""Names of weights in the graph start with this, so that no other value has the same name."""

# Any size of two or more is traced as "some batch"; 0 and 1 are special to the tracer.
_TRACED_BATCH = 3


@dataclass(frozen=True, kw_only=True)
class DenseGraph:
    """A traced model without the values of its weights. Values change, the graph does not: trace once, write often."""

    proto: onnx.ModelProto

    slices: dict[str, SliceKey]
    """Graph input -> what is looked up for it."""

    columns: dict[str, str]
    """Graph input -> feature column."""

    weights: dict[str, str]
    """Weight of the model that the graph reads -> its name in the graph."""

    outputs: tuple[TensorSpec, ...]

    signatures: dict[str, NamedOutputs]
    """What clients can ask for, by name."""


def trace_dense(
    model: MonolithModel,
    slices: Mapping[SliceKey, tuple[int, ...]],
    columns: Mapping[str, tuple[torch.dtype, tuple[int, ...]]],
    lists: frozenset[str] = frozenset(),
) -> DenseGraph:
    """Return the graph of the model's predictions, in evaluation mode; the model is left as it was.

    The model runs here, so no other thread may run it at the same time.

    Args:
        model: what is traced.
        slices: what may be looked up, and its shape per example.
        columns: feature columns that may be read, with type and shape per example; those that are not read are no
            inputs of the graph.
        lists: columns whose events differ in length: predictions that read their values are refused.
    """
    wrapper = _Traced(model, tuple(slices), tuple(columns), lists)
    rows = [torch.zeros(_TRACED_BATCH, *shape) for shape in slices.values()]
    values = [torch.zeros(_TRACED_BATCH, *shape, dtype=dtype) for dtype, shape in columns.values()]
    inputs = {**{f"row/{f}/{s}": (f, s) for f, s in slices}, **{f"column/{name}": name for name in columns}}
    with _evaluation_mode(model), torch.no_grad():
        spec = wrapper.checked_spec(*rows, *values)
        proto = _export(wrapper, (*rows, *values), list(inputs), list(predictions(spec)))
    weights = _make_overridable(proto, set(model.state_dict()))
    _drop_traces(proto)
    used = _drop_unread_inputs(proto, set(inputs))
    _require_free_batch(proto, used)
    return DenseGraph(
        proto=proto,
        slices={name: rows for name, rows in inputs.items() if name in used and isinstance(rows, tuple)},
        columns={name: column for name, column in inputs.items() if name in used and isinstance(column, str)},
        weights=weights,
        outputs=tuple(_spec(output) for output in proto.graph.output),
        signatures=_signatures(spec),
    )


def dense_weights(model: MonolithModel) -> dict[str, Array]:
    """Return a copy of every parameter and buffer, by the name it has in ``state_dict``."""
    weights = {}
    for name, value in model.state_dict().items():
        if value.dtype in (torch.bfloat16, torch.float16):
            raise ValueError(
                f"weight {name!r} is {value.dtype}; exports hold float32 weights: convert it with .float()"
            )
        weights[name] = np.array(value.detach().cpu().numpy(), copy=True, order="C")
    return weights


def graph_bytes(graph: DenseGraph, location: str, offsets: Mapping[str, tuple[int, int]]) -> bytes:
    """Return the .onnx file whose weights are found in another file beside it.

    Args:
        graph: the graph.
        location: name of that file.
        offsets: for each weight, where in that file it begins and how many bytes it has.
    """
    proto = copy.deepcopy(graph.proto)
    place = {inner: offsets[name] for name, inner in graph.weights.items()}
    for tensor in proto.graph.initializer:
        if tensor.name not in place:
            continue
        offset, length = place[tensor.name]
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
    return proto.SerializeToString(deterministic=True)


class _Traced(nn.Module):
    """The dense part with positional arguments and outputs, as the tracer wants it."""

    def __init__(
        self, model: MonolithModel, slices: Sequence[SliceKey], columns: Sequence[str], lists: frozenset[str]
    ) -> None:
        super().__init__()
        self.model = model
        self._slices = slices
        self._columns = columns
        self._lists = lists

    def checked_spec(self, *inputs: Tensor) -> EstimatorSpec:
        spec = self._spec(inputs)
        for name, value in predictions(spec).items():
            if value.dim() == 0 or len(value) != _TRACED_BATCH:
                raise ValueError(
                    f"output {name!r} must have one row per example, got shape {list(value.shape)} for a batch of "
                    f"{_TRACED_BATCH}; a prediction must keep the batch as its first dimension"
                )
        return spec

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        # Copies: an output that is an input as it came, or another output, would have its name.
        return tuple(value.clone() for value in predictions(self._spec(inputs)).values())

    def _spec(self, inputs: Sequence[Tensor]) -> EstimatorSpec:
        slices = dict(zip(self._slices, inputs, strict=False))
        features = dict(zip(self._columns, inputs[len(slices) :], strict=True))
        return run_dense(self.model, slices, ColumnsToServe(features, self._lists), Mode.PREDICT)


def _signatures(spec: EstimatorSpec) -> dict[str, NamedOutputs]:
    """Return the heads as the default signature, and each set of extra outputs as one of its own."""
    found = {SERVING_DEFAULT: NamedOutputs({name: name for name in heads(spec)})}
    for signature, extra in (spec.extra_outputs or {}).items():
        names = {key: output_name(signature, key) for key in extra.outputs}
        found[signature] = NamedOutputs(names, extra.head_name, extra.head_type)
    return found


@contextmanager
def _evaluation_mode(model: MonolithModel) -> Iterator[None]:
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


def _export(wrapper: nn.Module, values: tuple[Tensor, ...], inputs: list[str], outputs: list[str]) -> onnx.ModelProto:
    batch = torch.export.Dim("batch")
    wrapper.training = False
    # The exporter warns of packages that it could also use, and of the name that equal dimensions share.
    chatter = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = chatter.level
    chatter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                wrapper,
                values,
                input_names=inputs,
                output_names=outputs,
                dynamic_shapes=(tuple({0: batch} for _ in values),),
                dynamo=True,
                # Optimizing would fold weights into others (a batch norm into the layer before it).
                optimize=False,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise ValueError(f"the dense part of the model cannot be exported to ONNX: {error}") from error
    finally:
        chatter.setLevel(level)
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    return proto


def _make_overridable(proto: onnx.ModelProto, names: set[str]) -> dict[str, str]:
    """List each weight among the graph's inputs, without its value; return weight -> name in the graph."""
    weights = {}
    for tensor in proto.graph.initializer:
        name = tensor.name.removeprefix(WEIGHT_PREFIX)
        if tensor.name.startswith(WEIGHT_PREFIX) and name in names:
            weights[name] = tensor.name
            proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            tensor.ClearField("raw_data")
    return weights


def _drop_traces(proto: onnx.ModelProto) -> None:
    """Remove notes on the user's source files: a server must not reveal them."""
    parts: list[Any] = [proto, proto.graph, *proto.graph.node, *proto.graph.initializer, *proto.graph.value_info]
    parts += [*proto.graph.input, *proto.graph.output, *proto.functions]
    parts += [node for function in proto.functions for node in function.node]
    for part in parts:
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


def _drop_unread_inputs(proto: onnx.ModelProto, names: set[str]) -> set[str]:
    """Remove those of the named inputs that no node reads; return the others."""
    read = _read_values(proto.graph)
    for value in [value for value in proto.graph.input if value.name in names - read]:
        proto.graph.input.remove(value)
    return names & read


def _require_free_batch(proto: onnx.ModelProto, names: set[str]) -> None:
    """Refuse a graph for one batch size: if the code fixes the size, the tracer copies it without a warning."""
    values = [value for value in proto.graph.input if value.name in names] + list(proto.graph.output)
    for value in values:
        if not value.type.tensor_type.shape.dim[0].dim_param:
            raise ValueError(
                f"the dense part of the model cannot be exported to ONNX: its code fixes the size of the batch, as "
                f"{value.name!r} shows; leave it free, such as with view(-1, dim) in place of view(batch_size, dim)"
            )


def _read_values(graph: onnx.GraphProto) -> set[str]:
    """Return what nodes and outputs read, also from inside a branch or a loop."""
    read = {output.name for output in graph.output}
    for node in graph.node:
        read.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                read |= _read_values(inner)
    return read


def _spec(output: onnx.ValueInfoProto) -> TensorSpec:
    kind = output.type.tensor_type
    sizes = [-1 if number == 0 else size.dim_value for number, size in enumerate(kind.shape.dim)]
    return TensorSpec(output.name, datatype_name(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)), tuple(sizes))
