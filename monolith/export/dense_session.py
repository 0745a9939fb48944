"""The dense part of a served model: an ONNX graph with weights that can be swapped between two calls."""

import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from monolith.errors import CorruptFileError, shown
from monolith.export.signature import Array

# They have no class of their own in common.
GRAPH_ERRORS = (
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)
"""What ONNX Runtime raises for a graph that it cannot load or run."""


JOINED_ROWS = "rows"
"""Input of the graph that is run: all rows of an example side by side, [batch, floats]."""

_SIZES = "rows/sizes"
_LARGE_BATCH = 8192


class DenseSession:
    """Runs the graph; any number of threads may call `run` while another swaps the weights."""

    def __init__(
        self,
        path: Path,
        weights: Mapping[str, Array],
        graph_names: Mapping[str, str],
        *,
        joined: Mapping[str, int],
        num_threads: int = 1,
    ) -> None:
        """Load the graph.

        Args:
            path: the .onnx file.
            weights: every weight of the model.
            graph_names: for the weights that the graph reads, their names there.
            joined: inputs of the graph, with their widths, that `run` takes side by side as `JOINED_ROWS`.
            num_threads: threads that share the work of one call.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        options.inter_op_num_threads = 1
        # Errors only: for each weight it would warn that it is no constant, which is what we want.
        options.log_severity_level = 3
        graph = _runnable(onnx.load(path, load_external_data=False), set(graph_names.values()), joined)
        try:
            self._session = onnxruntime.InferenceSession(
                graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except GRAPH_ERRORS as error:
            raise CorruptFileError(f"{path} is no graph that ONNX Runtime can load: {error}") from error
        # The runtime keeps for ever what one batch needed; what a large one did is given back.
        self._shrinking = onnxruntime.RunOptions()
        self._shrinking.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self._outputs = [output.name for output in self._session.get_outputs()]
        self._graph_names = dict(graph_names)
        self._swap_lock = threading.Lock()
        self._weights = {name: np.array(value, copy=True) for name, value in weights.items()}
        self._fed = self._as_fed(self._weights)

    @property
    def weights(self) -> Mapping[str, Array]:
        """The weights in force, all of one swap; not to be written to."""
        return self._weights

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs for graph inputs, computed with the weights of one swap alone."""
        # Read once: a swap meanwhile replaces the whole dictionary.
        fed = dict(self._fed)
        fed.update((name, onnxruntime.OrtValue.ortvalue_from_numpy(value)) for name, value in inputs.items())
        num_rows = max((len(value) for value in inputs.values()), default=0)
        options = self._shrinking if num_rows > _LARGE_BATCH else None
        values = self._session.run_with_ort_values(self._outputs, fed, options)
        return {name: value.numpy() for name, value in zip(self._outputs, values, strict=True)}

    def swap(self, weights: Mapping[str, Array]) -> None:
        """Take these weights from the next `run` on; those not named stay. All or none: an error changes nothing."""
        taken = {name: self._checked(name, value) for name, value in weights.items()}
        with self._swap_lock:
            self._weights = {**self._weights, **taken}
            self._fed = self._as_fed(self._weights)

    def _checked(self, name: str, value: Array) -> Array:
        if name not in self._weights:
            raise ValueError(f"there is no dense weight {shown(name)}; the weights are {', '.join(self._weights)}")
        old = self._weights[name]
        if value.shape != old.shape or value.dtype != old.dtype:
            raise ValueError(
                f"dense weight {name!r} must be {old.dtype} of shape {list(old.shape)}, got {value.dtype} of shape "
                f"{list(value.shape)}; a model of another shape is a new export"
            )
        return np.array(value, copy=True, order="C")

    def _as_fed(self, weights: Mapping[str, Array]) -> dict[str, onnxruntime.OrtValue]:
        return {
            inner: onnxruntime.OrtValue.ortvalue_from_numpy(weights[name]) for name, inner in self._graph_names.items()
        }


def _runnable(graph: onnx.ModelProto, weights: Collection[str], joined: Mapping[str, int]) -> onnx.ModelProto:
    """Return a graph without values of weights, whose inputs `joined` (name to width, in order) are one, `JOINED_ROWS`.

    Handing over an input takes ONNX Runtime's Python side about ten microseconds, and a model may have a hundred of
    them. The runtime opens no other file: weights come with each call, and all else is in the graph.
    """
    made = onnx.ModelProto()
    made.CopyFrom(graph)
    kept = [tensor for tensor in graph.graph.initializer if tensor.name not in weights]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    if not joined:
        return made
    inputs = [value for value in graph.graph.input if value.name not in joined]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    floats = onnx.helper.make_tensor_value_info(JOINED_ROWS, onnx.TensorProto.FLOAT, ["batch", sum(joined.values())])
    made.graph.input.append(floats)
    sizes = onnx.helper.make_tensor(_SIZES, onnx.TensorProto.INT64, [len(joined)], list(joined.values()))
    made.graph.initializer.append(sizes)
    # First: nodes stand in the order in which they run.
    made.graph.node.insert(0, onnx.helper.make_node("Split", [JOINED_ROWS, _SIZES], list(joined), axis=1))
    return made
