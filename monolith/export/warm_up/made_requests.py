"""Requests made up from what a version takes, so that a server is warm without recorded ones."""

from collections.abc import Mapping
from typing import Any

from monolith.export.signature import TEXT, NamedOutputs, Signature, TensorSpec
from monolith.model.extra_outputs import SERVING_DEFAULT

WarmUpRequest = Mapping[str, Any]
"""The body of a request in TensorFlow Serving's form, without serialized records."""

_NUM_EXAMPLES = 4


def made_requests(signature: Signature, signatures: Mapping[str, NamedOutputs]) -> list[WarmUpRequest]:
    """Return a request by example and one by column, and one more for each signature beside the default one.

    >>> uid = TensorSpec("uid", "INT64")
    >>> made_requests(Signature((uid,), ()), {SERVING_DEFAULT: NamedOutputs({"pred": "pred"})})[0]
    {'instances': [{'uid': 0}]}
    """
    columns = {
        spec.name: [_value(spec, spec.shape[1:], row) for row in range(_NUM_EXAMPLES)] for spec in signature.inputs
    }
    others = [name for name in signatures if name != SERVING_DEFAULT]
    return [
        {"instances": [{name: values[0] for name, values in columns.items()}]},
        {"inputs": columns},
        *({"signature_name": name, "inputs": columns} for name in others),
    ]


def _value(spec: TensorSpec, shape: tuple[int, ...], row: int) -> Any:
    """Return the value of one example; lists have as many ids as the number of the example says."""
    if not shape:
        return str(row) if spec.datatype == TEXT else row if spec.dtype.kind == "i" else float(row)
    return [_value(spec, shape[1:], row) for _ in range(row if shape[0] < 0 else shape[0])]
