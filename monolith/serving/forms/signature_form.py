"""The metadata of TensorFlow Serving: each signature of a version, with its inputs and outputs."""

from collections.abc import Mapping
from typing import Any

from monolith.export.serving_model import ServingModel
from monolith.export.signature import NamedOutputs, TensorSpec

_DTYPES = {
    "INT64": "DT_INT64",
    "INT32": "DT_INT32",
    "FP32": "DT_FLOAT",
    "FP64": "DT_DOUBLE",
    "BOOL": "DT_BOOL",
    "BYTES": "DT_STRING",
}


def signatures_metadata(model: ServingModel) -> dict[str, Any]:
    """Return what ``GET /v1/models/{name}/metadata`` says of a version."""
    return {
        "model_spec": {"name": model.name, "signature_name": "", "version": str(model.version)},
        "metadata": {"signature_def": {"signature_def": _signatures(model)}},
    }


def signatures_json(model: ServingModel) -> dict[str, Any]:
    """Return the signatures as ``GET /v2/models/{name}`` lists them: the names of their tensors there."""
    return {name: _with_head(one, {"outputs": list(one.outputs.values())}) for name, one in model.signatures.items()}


def _signatures(model: ServingModel) -> dict[str, Any]:
    inputs = {spec.name: _tensor(spec.name, spec) for spec in model.signature.inputs}
    specs = {spec.name: spec for spec in model.signature.outputs}
    return {
        signature: _with_head(
            one,
            {
                "inputs": inputs,
                "outputs": {name: _tensor(own, specs[own]) for name, own in one.outputs.items()},
                "method_name": "tensorflow/serving/predict",
            },
        )
        for signature, one in model.signatures.items()
    }


def _with_head(named: NamedOutputs, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a signature, and what the model says of its head."""
    head = {"head_name": named.head_name, "head_type": named.head_type}
    return {**fields, **{name: value for name, value in head.items() if value is not None}}


def _tensor(name: str, spec: TensorSpec) -> dict[str, Any]:
    # Sizes are texts: so protobuf writes 64-bit numbers as JSON.
    sizes = [{"size": str(size), "name": ""} for size in spec.shape]
    return {"dtype": _DTYPES[spec.datatype], "tensor_shape": {"dim": sizes, "unknown_rank": False}, "name": name}
