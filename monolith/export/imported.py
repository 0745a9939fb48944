"""import_saved_model: an exported model as a function, for scripts and tests that need no server."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

from monolith.data.parse import ExampleParser, TfExampleParser, records_of
from monolith.data.parse.record_parser import RecordParser
from monolith.export.load import load_export, load_newest_export
from monolith.export.serving_model import ServingModel
from monolith.export.signature import TEXT, Array, TensorSpec, Values
from monolith.export.versions import MODEL_FILE

SERVING_DEFAULT: Final = "serving_default"
"""The name of the only signature of an export."""

Questions: TypeAlias = Mapping[str, Values] | Sequence[bytes]
"""Columns by name, or serialized records, one per example."""

Infer: TypeAlias = Callable[[Questions], dict[str, Array]]

_PARSERS: Final[dict[str, type[TfExampleParser] | type[ExampleParser]]] = {
    "tf_example": TfExampleParser,
    "example": ExampleParser,
}


@contextmanager
def import_saved_model(
    saved_model_path: str | os.PathLike[str],
    input_name: str = "instances",
    output_name: str | Sequence[str] | None = "output",
    signature: str | None = None,
    *,
    records: Literal["tf_example", "example"] = "tf_example",
) -> Iterator[Infer]:
    """Load an export and yield `infer(features)`, which returns predictions by output name.

    Args:
        saved_model_path: The folder of a version, or of several, whose newest whole one is taken.
        input_name: `infer` takes columns by name, or a list of serialized records, or that list under this name.
        output_name: Which outputs to return; None returns all. The only output of a model may have any name.
        signature: "serving_default", the one that an export has.
        records: What serialized records are.

    Raises:
        FileNotFoundError: There is no complete version.
        ValueError: The export has no such output or signature, or there is no such format of records.
    """
    if signature not in (None, SERVING_DEFAULT):
        raise ValueError(f"there is no signature {signature!r}; an export has one, {SERVING_DEFAULT!r}")
    if records not in _PARSERS:
        raise ValueError(f"records must be one of {', '.join(_PARSERS)}, got {records!r}")
    model = _load(Path(saved_model_path))
    outputs = _outputs(model, output_name)
    inputs = {spec.name: spec for spec in model.signature.inputs}

    @cache  # made for the first records: an input that no record can hold may still come as a column
    def parser() -> RecordParser:
        return _PARSERS[records]({name: _column_type(spec) for name, spec in inputs.items()})

    def infer(features: Questions) -> dict[str, Array]:
        columns: Mapping[str, Values]
        if isinstance(features, Mapping) and (features.keys() != {input_name} or input_name in inputs):
            columns = features
        else:
            serialized = features[input_name] if isinstance(features, Mapping) else features
            columns = parser().parse(records_of(cast(Sequence[bytes], serialized))).columns
        found = model.predict(columns)
        return {name: found[own] for name, own in outputs.items()}

    yield infer


def _load(path: Path) -> ServingModel:
    if path.name.isdecimal() and (path / MODEL_FILE).is_file():
        return load_export(path)
    try:
        return load_newest_export(path)[0]
    except FileNotFoundError as error:
        raise FileNotFoundError(f"no models in dir {path}: {error}") from error


def _outputs(model: ServingModel, wanted: str | Sequence[str] | None) -> dict[str, str]:
    """Return the outputs to return: the name that the caller uses -> the model's own name."""
    own = [spec.name for spec in model.signature.outputs]
    if wanted is None:
        return {name: name for name in own}
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if len(names) == len(own) == 1:
        return {names[0]: own[0]}
    if unknown := [name for name in names if name not in own]:
        raise ValueError(
            f"the model has no output {unknown[0]!r}; choose output_name from {', '.join(own)}, or None for all"
        )
    return {name: name for name in names}


def _column_type(spec: TensorSpec) -> str:
    """Return the type of the column that a parser makes for an input."""
    item = "hash" if spec.datatype == TEXT else {"INT64": "int64", "INT32": "int64"}.get(spec.datatype, "float32")
    if spec.has_lists:
        return f"{item}[]"
    return item if len(spec.shape) == 1 else f"{item}[{spec.shape[1]}]"
