"""import_saved_model: an exported model as a function, for scripts and tests that need no server."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeAlias, cast

from monolith.data.parse.record_columns import FORMATS, SerializedFormat
from monolith.data.parse.record_reader import RecordReader
from monolith.export.load import load_export, load_newest_export
from monolith.export.serving_model import ServingModel
from monolith.export.signature import Array, Values, chosen_signature
from monolith.export.versions import MODEL_FILE

Questions: TypeAlias = Mapping[str, Values] | Sequence[bytes]
"""Columns by name, or serialized records, one per example."""

Infer: TypeAlias = Callable[[Questions], dict[str, Array]]


@contextmanager
def import_saved_model(
    saved_model_path: str | os.PathLike[str],
    input_name: str = "instances",
    output_name: str | Sequence[str] | None = "output",
    signature: str | None = None,
    *,
    records: SerializedFormat | None = None,
) -> Iterator[Infer]:
    """Load an export and yield `infer(features)`, which returns predictions by output name.

    Args:
        saved_model_path: The folder of a version, or of several, whose newest whole one is taken.
        input_name: `infer` takes columns by name, or a list of serialized records, or that list under this name.
        output_name: Which outputs to return; None returns all. The only output of a model may have any name.
        signature: Whose outputs are meant: the name of an extra output of the model, or by default
            "serving_default", the heads.
        records: What serialized records are; None for those of the format in training, or `tf.Example` if training read
            none.

    Raises:
        FileNotFoundError: There is no complete version.
        ValueError: The export has no such output or signature, or there is no such format of records.
    """
    if records is not None and records not in FORMATS:
        raise ValueError(f"records must be one of {', '.join(FORMATS)}, got {records!r}")
    model = _load(Path(saved_model_path))
    outputs = _chosen(chosen_signature(model.signatures, signature).outputs, output_name)
    inputs = {spec.name: spec for spec in model.signature.inputs}

    @cache
    def read() -> Callable[[Sequence[bytes]], Mapping[str, Values]]:
        if records in (None, model.record_format):
            return model.read_records
        return RecordReader(model.signature.record_columns(records)).read

    def infer(features: Questions) -> dict[str, Array]:
        columns: Mapping[str, Values]
        if isinstance(features, Mapping) and (features.keys() != {input_name} or input_name in inputs):
            columns = features
        else:
            serialized = features[input_name] if isinstance(features, Mapping) else features
            columns = read()(cast(Sequence[bytes], serialized))
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


def _chosen(own: Mapping[str, str], wanted: str | Sequence[str] | None) -> dict[str, str]:
    """Return the outputs to return: the name that the caller uses -> the model's name, given those of a signature."""
    if wanted is None:
        return dict(own)
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if len(names) == len(own) == 1:
        return dict(zip(names, own.values(), strict=True))
    if unknown := [name for name in names if name not in own]:
        raise ValueError(
            f"the signature has no output {unknown[0]!r}; choose output_name from {', '.join(own)}, or None for all"
        )
    return {name: own[name] for name in names}
