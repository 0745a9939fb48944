"""Warm-up of a version before it answers: what the first requests would wait for is done by then."""

from pathlib import Path

import numpy as np

from monolith.errors import CorruptFileError, shown
from monolith.export.dense_session import GRAPH_ERRORS
from monolith.export.serving_model import ServingModel
from monolith.export.signature import TensorSpec, Values
from monolith.export.versions import WARM_UP_FILE
from monolith.serving.forms import predict_form

_SIZES = (1, 100, 1000)
_ROUNDS = 2
"""ONNX Runtime plans its memory in the first call of a size, and follows the plan from the second on."""


def warm_up(model: ServingModel, folder: Path, *, max_batch: int | None = None) -> None:
    """Predict for the recorded requests of a version, and for made-up batches of several sizes up to `max_batch`.

    Raises:
        CorruptFileError: a recorded request is wrong, or the model cannot predict for it; the version must not answer.
    """
    if WARM_UP_FILE in model.description.files:
        _replay(model, folder / WARM_UP_FILE)
    for size in dict.fromkeys(size if max_batch is None else min(size, max_batch) for size in _SIZES):
        columns = {spec.name: _made_up(spec, size) for spec in model.signature.inputs}
        for _ in range(_ROUNDS):
            _predict(model, columns, folder)


def _replay(model: ServingModel, path: Path) -> None:
    try:
        questions = [predict_form.read_request(model, line).question for line in path.read_bytes().splitlines()]
    except ValueError as error:
        raise CorruptFileError(f"{path} has no requests that the model takes: {shown(str(error), 300)}") from error
    for question in questions:
        try:
            model.predict_together([question])
        except GRAPH_ERRORS as error:
            raise CorruptFileError(f"{path}: the model cannot predict for its requests: {error}") from error


def _predict(model: ServingModel, columns: dict[str, Values], folder: Path) -> None:
    try:
        model.predict(columns)
    except GRAPH_ERRORS as error:
        raise CorruptFileError(f"{folder}: the model cannot predict for several examples: {error}") from error
    except ValueError:
        return  # too many examples for one request of this model


def _made_up(spec: TensorSpec, size: int) -> Values:
    """Return ids, or numbers, of `size` examples; a list has one id."""
    return np.zeros((size, *(abs(one) for one in spec.shape[1:])), spec.dtype)
