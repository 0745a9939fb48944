"""Writing a model as files to serve: a numbered folder that appears complete or not at all."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from monolith.checkpoint.format.durable_files import make_folder, sync_file, sync_folder
from monolith.checkpoint.format.tensor_file import save_arrays
from monolith.data import Schema
from monolith.embedding import Compressor, MultiTable
from monolith.export.dense_graph import DenseGraph, dense_weights, graph_bytes, trace_dense
from monolith.export.description import Description, FileCheck, RowInput
from monolith.export.graph_check import weight_places
from monolith.export.serving_tables import OnRowsServed, config_to_json, to_serving
from monolith.export.signature import Array, Signature, TensorSpec
from monolith.export.versions import (
    GRAPH_FILE,
    MODEL_FILE,
    TABLES_FOLDER,
    WEIGHTS_FILE,
    unfinished_path,
    version_path,
)
from monolith.model import LookupPlan, MonolithModel
from monolith.model.hyper_params.spelling import to_snake_case
from monolith.wire import make_secret

_TORCH_TYPES = {"int64": torch.int64, "float32": torch.float32}
_DATATYPES = {"int64": "INT64", "float32": "FP32"}


def trace_model(model: MonolithModel, plan: LookupPlan, schema: Schema) -> DenseGraph:
    """Return the ONNX graph of a model; give it to `write_export` to export again without running the model."""
    slices = {key: plan.slice_shape(key) for key in plan.places}
    plain = {name: kind for name, kind in schema.types.items() if not kind.is_ragged}
    columns = {name: (_TORCH_TYPES[kind.item], kind.event_shape) for name, kind in plain.items()}
    # Tracing runs the model, which may draw numbers: a run that exports must take the same steps as one that does not.
    with torch.random.fork_rng(devices=[]):
        return trace_dense(model, slices, columns)


def write_export(
    base: str | Path,
    version: int,
    *,
    model: MonolithModel,
    plan: LookupPlan,
    tables: MultiTable,
    schema: Schema,
    generation: int,
    sequence: int,
    name: str | None = None,
    graph: DenseGraph | None = None,
    weights: Mapping[str, Array] | None = None,
    compressors: Mapping[str, Compressor] | None = None,
    skip_zero_embedding: bool = False,
    progress: OnRowsServed | None = None,
) -> Path:
    """Write ``<base>/<version>/`` and return it; on any error, or Ctrl-C, nothing is left behind.

    Tables may be trained meanwhile: rows newer than `sequence` get in, and the deltas after it bring them again. Given
    `graph` and `weights`, the model itself is not touched, so that training may go on in another thread.

    Args:
        base: folder of all versions; made, with the shared secret of trainer and server, if it is not there.
        version: a number that is not taken yet.
        model: what to export.
        plan: what it looks up.
        tables: one table per feature of the plan.
        schema: columns of the source; those that predictions need become inputs.
        generation: of the trainer.
        sequence: the last delta whose rows are surely in the tables.
        name: what requests call the model; its class name in snake case if not given.
        graph: from `trace_model`; traced now if not given.
        weights: a copy of the dense weights; the model's present ones if not given.
        compressors: by table, how all of its rows are stored; by default as the plan says.
        skip_zero_embedding: rows of zeros are left out, and a server drops those that become so: they read the same.
        progress: is told how far each table is.
    """
    root = Path(base)
    final, unfinished = version_path(root, version), unfinished_path(root, version)
    if final.exists():
        raise FileExistsError(f"export version {version} is already in {root}; versions are never written twice")
    weights = dense_weights(model) if weights is None else weights
    graph = trace_model(model, plan, schema) if graph is None else graph
    make_folder(root)
    # Left by a writer that was killed.
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        (unfinished / TABLES_FOLDER).mkdir(parents=True)
        _write_dense(unfinished, graph, weights)
        description = Description(
            name=name or to_snake_case(type(model).__name__),
            version=version,
            generation=generation,
            sequence=sequence,
            created=time.time(),
            plan=json.loads(plan.to_json()),
            plan_hash=plan.hash,
            signature=_signature(graph, schema),
            rows=_row_inputs(graph, plan),
            columns=graph.columns,
            weights=graph.weights,
            tables=_write_tables(
                unfinished, plan, tables, generation, compressors or {}, progress, skip_zero_embedding
            ),
            files=_sync_files(unfinished),
        )
        (unfinished / MODEL_FILE).write_bytes(description.to_bytes())
        sync_file(unfinished / MODEL_FILE)
        # The folder of the tables is synced with each of them.
        sync_folder(unfinished)
        # Before the version is there: a server that waits for it reads the secret at once.
        make_secret(root)
        unfinished.rename(final)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    sync_folder(root)
    return final


def _write_dense(folder: Path, graph: DenseGraph, weights: Mapping[str, Array]) -> None:
    """Write the weights, and the graph that finds them there by their place in the file."""
    missing = sorted(set(graph.weights) - set(weights))
    if missing:
        raise ValueError(f"the graph reads the dense weight {missing[0]!r}, which the weights do not have")
    path = folder / WEIGHTS_FILE
    save_arrays(weights, path)
    (folder / GRAPH_FILE).write_bytes(graph_bytes(graph, WEIGHTS_FILE, weight_places(path)))


def _write_tables(
    folder: Path,
    plan: LookupPlan,
    tables: MultiTable,
    generation: int,
    compressors: Mapping[str, Compressor],
    progress: OnRowsServed | None,
    skip_zero_embedding: bool,
) -> dict[str, dict[str, Any]]:
    """Write one table after the other: only one is in memory twice."""
    written = {}
    for name in plan.tables():
        served = to_serving(tables[name], compressors.get(name), progress, skip_zero_embedding=skip_zero_embedding)
        basename = f"{TABLES_FOLDER}/{name}"
        served.save(folder / basename, plan_hash=plan.hash, generation=generation)
        written[name] = {**config_to_json(served.config), "num_rows": len(served), "files": basename}
    return written


def _signature(graph: DenseGraph, schema: Schema) -> Signature:
    """Inputs are the columns that predictions need, in the order of the schema."""
    needed = {feature for feature, _ in graph.slices.values()} | set(graph.columns.values())
    absent = needed - set(schema.names)
    if absent:
        raise ValueError(f"the plan looks up {sorted(absent)[0]!r}, but the schema has only {', '.join(schema.names)}")
    kinds = {name: kind for name, kind in schema.types.items() if name in needed}
    ragged = [name for name, kind in kinds.items() if kind.is_ragged]
    if ragged:
        raise ValueError(
            f"the predictions need the ragged columns {', '.join(ragged)}; requests to a server hold one value or a "
            "fixed number of them per example: give the columns a fixed width in the schema, such as int64[20]"
        )
    inputs = [TensorSpec(name, _DATATYPES[kind.item], (-1, *kind.event_shape)) for name, kind in kinds.items()]
    return Signature(tuple(inputs), graph.outputs)


def _row_inputs(graph: DenseGraph, plan: LookupPlan) -> dict[str, RowInput]:
    tables = {feature.name: feature.table for feature in plan.features}
    inputs = {}
    for name, (feature, slice_name) in graph.slices.items():
        offset, dim = plan.places[feature, slice_name]
        inputs[name] = RowInput(feature=feature, slice_name=slice_name, table=tables[feature], offset=offset, dim=dim)
    return inputs


def _sync_files(folder: Path) -> dict[str, FileCheck]:
    """Bring every file to the disk and return what each must be."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        sync_file(path)
    return {path.relative_to(folder).as_posix(): FileCheck.of(path) for path in files}
