"""Loading an export: files become a model that answers. No class of the user's is needed, and nothing is executed."""

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from safetensors import SafetensorError
from safetensors.numpy import load_file

from monolith._core import native
from monolith.delta.serving_tables import config_from_json
from monolith.delta.taken_part import WHOLE_TARGET, TakenPart
from monolith.embedding import MultiTable, TableConfig
from monolith.embedding.shard_files import fill_from_shard_files, find_shard_files
from monolith.errors import CorruptFileError, NotFiniteError, shown
from monolith.export.dense_session import GRAPH_ERRORS, DenseSession
from monolith.export.description import Description
from monolith.export.graph_check import GraphInterface, check_graph
from monolith.export.serving_model import ServingModel, joined_rows
from monolith.export.signature import DATATYPES, TEXT, TensorSpec, datatype_name
from monolith.export.versions import GRAPH_FILE, MODEL_FILE, TABLES_FOLDER, WEIGHTS_FILE, base_of, version_paths
from monolith.model import LookupPlan

# Of inputs; many more would not fit into a request.
_MAX_VALUES_PER_EXAMPLE = 1 << 20

# Of rows, 64 MiB: the longest sequences that anybody serves have a tenth of that.
_MAX_FLOATS_PER_EXAMPLE = 1 << 24

RowsElsewhere = Callable[[Description, Mapping[str, TableConfig]], MultiTable]
"""Returns tables of a version whose rows other processes have; they can be looked up as a MultiTable can."""

_log = logging.getLogger(__name__)


def load_newest_export(base: str | Path, *, num_threads: int = 1) -> tuple[ServingModel, int]:
    """Return the newest whole version, and the number of newer, damaged ones that were skipped.

    Raises:
        FileNotFoundError: there is no complete version.
        CorruptFileError: all are damaged; the message is that of the newest.
    """
    failures: list[CorruptFileError] = []
    for path in version_paths(base):
        try:
            model = load_export(path, num_threads=num_threads)
        except CorruptFileError as error:
            failures.append(error)
            continue
        for failure in failures:
            _log.warning("version %d is served in place of a newer one: %s", model.version, failure)
        return model, len(failures)
    raise failures[0]


def load_export(path: str | Path, *, num_threads: int = 1, rows: RowsElsewhere | None = None) -> ServingModel:
    """Return the model of one version folder, after comparing every file with its checksum and with the others.

    Args:
        path: ``<base>/<version>``, or ``<base>/entry/<version>``.
        num_threads: threads that share the dense work of one prediction; many predictions may run at a time.
        rows: returns the tables if other processes have the rows; the files of rows are not looked at then.

    Raises:
        CorruptFileError: the export is not complete, a file is damaged, or they do not fit; the message names it.
    """
    folder = Path(path)
    description = Description.read(folder)
    for needed in (GRAPH_FILE, WEIGHTS_FILE):
        if needed not in description.files:
            raise CorruptFileError(f"{folder / MODEL_FILE} does not list {needed}; export the model again")
    description.check_files(folder)
    if rows is None:
        for shard in range(len(description.shards)):
            description.check_shard(folder, shard)
    try:
        return _load(folder, description, num_threads, rows)
    except CorruptFileError:
        raise
    # The checksums are right, but the content may still be wrong: a reader must not trust it.
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        reason = f"{type(error).__name__}: {shown(str(error), 300)}"
        raise CorruptFileError(f"{folder / MODEL_FILE} describes no model that can be served: {reason}") from error


def _load(folder: Path, description: Description, num_threads: int, rows: RowsElsewhere | None) -> ServingModel:
    plan = plan_of(folder, description)
    _check_rows(folder, description, plan)
    configs = table_configs(folder, description, plan)
    tables = _tables(folder, description, configs) if rows is None else rows(description, configs)
    try:
        weights = load_file(folder / WEIGHTS_FILE)
    except SafetensorError as error:
        raise CorruptFileError(f"{folder / WEIGHTS_FILE} is no safetensors file: {error}") from error
    interface = check_graph(folder / GRAPH_FILE, weights, description.weights)
    _check_interface(folder, description, plan, interface)
    session = DenseSession(
        folder / GRAPH_FILE,
        weights,
        description.weights,
        joined=joined_rows(description.rows, plan),
        num_threads=num_threads,
    )
    takes = WHOLE_TARGET if rows is None else TakenPart(None, dense=True)
    model = ServingModel(description, plan=plan, tables=tables, session=session, takes=takes)
    _try_out(folder, model)
    return model


def _try_out(folder: Path, model: ServingModel) -> None:
    """Predict for one example: files that fit their checksums but not each other are found now, not by a client."""
    # A list has one value here.
    shapes = {spec.name: (1, *(abs(size) for size in spec.shape[1:])) for spec in model.signature.inputs}
    if sum(math.prod(shape) for shape in shapes.values()) > _MAX_VALUES_PER_EXAMPLE:
        raise CorruptFileError(
            f"{folder / MODEL_FILE}: an example would have more than {_MAX_VALUES_PER_EXAMPLE} values"
        )
    example = {spec.name: np.zeros(shapes[spec.name], spec.dtype) for spec in model.signature.inputs}
    try:
        model.predict(example)
    except GRAPH_ERRORS as error:
        raise CorruptFileError(f"{folder / GRAPH_FILE} is no graph that ONNX Runtime can run: {error}") from error


def plan_of(folder: Path, description: Description) -> LookupPlan:
    """Return the lookup plan of a version; a CorruptFileError if it is not the one that was written."""
    plan = LookupPlan.from_json(json.dumps(description.plan))
    if plan.hash != description.plan_hash:
        raise CorruptFileError(
            f"{folder / MODEL_FILE}: its plan has the hash {plan.hash}, not {description.plan_hash}; another version "
            "of this program wrote it: export the model again"
        )
    return plan


def _check_rows(folder: Path, description: Description, plan: LookupPlan) -> None:
    """Compare what is looked up with the plan, and every input with the signature."""
    tables = {feature.name: feature.table for feature in plan.features}
    inputs = {spec.name: spec for spec in description.signature.inputs}
    for name, row in description.rows.items():
        place = plan.places.get((row.feature, row.slice_name))
        if place != (row.offset, row.dim) or tables[row.feature] != row.table:
            raise CorruptFileError(
                f"{folder / MODEL_FILE}: {shown(name)} is {row.dim} floats from {row.offset} on of table "
                f"{shown(row.table)}; the plan says otherwise"
            )
        if row.feature not in inputs or inputs[row.feature].datatype not in ("INT64", TEXT):
            raise CorruptFileError(
                f"{folder / MODEL_FILE}: the ids of {shown(name)} are no INT64 or {TEXT} input of the model"
            )
    for name, column in description.columns.items():
        if column not in inputs or inputs[column].has_lists:
            raise CorruptFileError(
                f"{folder / MODEL_FILE}: {shown(name)} reads {shown(column)}, which is no input, or one of lists"
            )
    floats = sum(math.prod(plan.slice_shape((row.feature, row.slice_name))) for row in description.rows.values())
    if floats > _MAX_FLOATS_PER_EXAMPLE:
        raise CorruptFileError(f"{folder / MODEL_FILE}: an example would look up {floats} floats")


def table_configs(folder: Path, description: Description, plan: LookupPlan) -> dict[str, TableConfig]:
    """Return the serving tables of a version; a CorruptFileError if they are not those of the plan."""
    configs = {name: config_from_json(name, fields) for name, fields in description.tables.items()}
    planned = {name: [segment.dim for segment in config.segments] for name, config in plan.tables().items()}
    described = {name: [segment.dim for segment in config.segments] for name, config in configs.items()}
    if described != planned:
        raise CorruptFileError(
            f"{folder / MODEL_FILE}: its tables have segments of {shown(described, 200)} floats, by its plan they have "
            f"{shown(planned, 200)}"
        )
    for name, fields in description.tables.items():
        if fields["files"] != f"{TABLES_FOLDER}/{name}":
            raise CorruptFileError(f"{folder / MODEL_FILE}: table {name!r} has its files in {shown(fields['files'])}")
    return configs


def _tables(folder: Path, description: Description, configs: Mapping[str, TableConfig]) -> MultiTable:
    tables = MultiTable(configs)
    for name, fields in description.tables.items():
        table, files = tables[name], table_files(folder, description, name)
        try:
            num_rows = fill_from_shard_files(table.native, table.schema(), files)
        except NotFiniteError as error:
            raise CorruptFileError(f"{folder} cannot be served, export the model again: {error}") from error
        if num_rows != fields["num_rows"]:
            raise CorruptFileError(
                f"table {name!r} of {folder} has {num_rows} rows, {MODEL_FILE} says {shown(fields['num_rows'])}"
            )
    return tables


def table_files(folder: Path, description: Description, name: str) -> list[str]:
    """Return the files of a table, those of all shards in order."""
    if not description.shards:
        return find_shard_files(str(folder / TABLES_FOLDER / name))
    base, count = base_of(folder), len(description.shards)
    return [
        native.shard_file_name(str(base / shard.folder / TABLES_FOLDER / name), number, count)
        for number, shard in enumerate(description.shards)
    ]


def _check_interface(folder: Path, description: Description, plan: LookupPlan, graph: GraphInterface) -> None:
    """Compare what the graph takes and gives with what it will be fed and asked for."""
    inputs = {spec.name: spec for spec in description.signature.inputs}
    wanted = {
        name: TensorSpec(name, "FP32", (-1, *plan.slice_shape((row.feature, row.slice_name))))
        for name, row in description.rows.items()
    }
    wanted |= {
        name: replace(inputs[column], datatype=datatype_name(inputs[column].dtype))
        for name, column in description.columns.items()
    }
    missing = graph.inputs.keys() ^ (wanted.keys() | set(description.weights.values()))
    if missing:
        raise CorruptFileError(f"{folder / GRAPH_FILE}: its input {shown(min(missing))} is not the one of {MODEL_FILE}")
    outputs = {spec.name: spec for spec in description.signature.outputs}
    if graph.outputs.keys() != outputs.keys():
        raise CorruptFileError(
            f"{folder / GRAPH_FILE} has the outputs {shown(list(graph.outputs))}, not {list(outputs)}"
        )
    found = {**graph.inputs, **graph.outputs}
    for name, spec in (*wanted.items(), *outputs.items()):
        if not _fits(found[name], spec):
            raise CorruptFileError(f"{folder / GRAPH_FILE}: {shown(name)} is not {spec.datatype} of shape {spec.shape}")


def _fits(tensor: onnx.TypeProto.Tensor, spec: TensorSpec) -> bool:
    kind = onnx.helper.np_dtype_to_tensor_dtype(DATATYPES[spec.datatype])
    sizes = [-1 if number == 0 else size.dim_value for number, size in enumerate(tensor.shape.dim)]
    return tensor.elem_type == kind and tuple(sizes) == spec.shape
