"""Writing a model as files to serve: a numbered folder that appears complete or not at all."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from monolith._core import native
from monolith.checkpoint.format.tensor_file import save_arrays
from monolith.data import ColumnType, Schema
from monolith.data.parse.record_columns import RecordColumns
from monolith.delta.serving_tables import OnRowsServed, config_to_json, serving_config, to_serving
from monolith.embedding import Compressor, MultiTable, TableConfig
from monolith.export.dense_graph import DenseGraph, dense_weights, graph_bytes, trace_dense
from monolith.export.description import Description, RowInput
from monolith.export.graph_check import weight_places
from monolith.export.kept.export_state import write_export_state
from monolith.export.signature import TEXT, Array, Signature, TensorSpec
from monolith.export.unfinished import UnfinishedVersion, synced
from monolith.export.versions import GRAPH_FILE, TABLES_FOLDER, WARM_UP_FILE, WEIGHTS_FILE
from monolith.export.warm_up.made_requests import WarmUpRequest, made_requests
from monolith.export.warm_up.request_file import check_requests, requests_to_bytes
from monolith.features import ids_of_texts
from monolith.model import LookupPlan, MonolithModel
from monolith.model.hyper_params.spelling import to_snake_case
from monolith.wire import make_secret

_TORCH_TYPES = {"int64": torch.int64, "float32": torch.float32}
_DATATYPES = {"int64": "INT64", "float32": "FP32"}


def trace_model(model: MonolithModel, plan: LookupPlan, schema: Schema) -> DenseGraph:
    """Return the ONNX graph of a model; with it, `write_export` need not run the model again."""
    slices = {key: plan.slice_shape(key) for key in plan.places}
    plain = {name: kind for name, kind in schema.types.items() if not kind.is_ragged}
    columns = {name: (_TORCH_TYPES[kind.item], kind.event_shape) for name, kind in plain.items()}
    lists = frozenset(schema.names) - plain.keys()
    # Tracing runs the model, which may draw numbers: a run that exports must take the same steps as one that does not.
    with torch.random.fork_rng(devices=[]):
        return trace_dense(model, slices, columns, lists)


class TablesElsewhere(Protocol):
    """Tables whose rows are in other processes, one per shard, which write them by themselves."""

    @property
    def num_shards(self) -> int:
        """Number of processes."""
        ...

    def write(
        self, folder_of: Callable[[int], Path], *, skip_zero_embedding: bool
    ) -> tuple[list[dict[str, int]], list[int]]:
        """Write the tables of each shard into its folder.

        Returns the numbers of rows by table, and the sequence before that, of each shard.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowsOfVersion:
    """Rows that are not written again: those of an earlier version of the distributed layout."""

    path: Path
    """Folder with the `model.json` of that version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """A model as it is to be served."""

    model: MonolithModel
    """What to export."""

    plan: LookupPlan
    """What it looks up."""

    tables: MultiTable | TablesElsewhere | RowsOfVersion
    """One table per feature of the plan."""

    num_shards: int | None = None
    """Write the distributed layout, with the rows in this many folders; by default a version is one folder."""

    schema: Schema
    """Columns of the source; those that predictions need become inputs."""

    generation: int
    """Of the trainer."""

    sequence: int
    """The last delta whose rows are surely in the tables."""

    global_step: int = 0
    """Step of training that it is of."""

    name: str | None = None
    """What requests call the model; its class name in snake case if not given."""

    graph: DenseGraph | None = None
    """From `trace_model`; traced now if not given."""

    weights: Mapping[str, Array] | None = None
    """A copy of the dense weights; the model's present ones if not given."""

    compressors: Mapping[str, Compressor] = field(default_factory=dict)
    """By table, how all of its rows are stored; by default as the plan says."""

    warm_up: Sequence[WarmUpRequest] | None = None
    """Requests that a server answers before the version takes traffic; made up if not given."""

    skip_zero_embedding: bool = False
    """Leave out rows of zeros, and drop rows that become zero: their ids read as zeros anyway."""

    progress: OnRowsServed | None = None
    """Called with how far each table is."""


def write_export(base: str | Path, version: int, export: Export) -> Path:
    """Write a version and return its folder; on any error, or Ctrl-C, nothing is left behind.

    The folder is ``<base>/<version>/``. With `num_shards`, it is ``<base>/entry/<version>/``, and the rows are in
    ``<base>/ps_<i>/<version>/``. The folder `base` and the shared secret of trainer and server are made if they are
    missing. A version that exists already is a FileExistsError.

    Training may go on: rows newer than `sequence` get in, and the deltas after it bring them again. Given
    `graph` and `weights`, the model itself is not touched, so that training may go on in another thread.
    """
    root = Path(base)
    shares_rows = isinstance(export.tables, RowsOfVersion)
    unfinished = UnfinishedVersion(root, version, 0 if shares_rows else _num_shards(export))
    weights = dense_weights(export.model) if export.weights is None else export.weights
    graph = export.graph or trace_model(export.model, export.plan, export.schema)
    # Before rows are read: it bears the time from which on deltas bring what is newer.
    description = _describe(export, version, graph)
    warm_up = _warm_up(export, description)
    try:
        unfinished.make_folders()
        _write_dense(unfinished.folder, graph, weights)
        (unfinished.folder / WARM_UP_FILE).write_bytes(warm_up)
        if isinstance(export.tables, RowsOfVersion):
            description = _with_rows_of(description, export.tables.path)
        else:
            description = _write_tables(description, unfinished, export)
        # Before the version is there: a server that waits for it reads the secret at once.
        make_secret(root)
        path = unfinished.commit(replace(description, files=synced(unfinished.folder)))
    except BaseException:
        unfinished.discard()
        raise
    write_export_state(root)
    return path


def _num_shards(export: Export) -> int | None:
    if export.num_shards is None or isinstance(export.tables, MultiTable):
        return export.num_shards
    assert not isinstance(export.tables, RowsOfVersion)
    if export.num_shards != export.tables.num_shards:
        raise ValueError(
            f"num_shards={export.num_shards}, but {export.tables.num_shards} parameter servers hold the rows, and each "
            "writes its own part; leave out the number of shards"
        )
    return export.num_shards


def _describe(export: Export, version: int, graph: DenseGraph) -> Description:
    """Return what is known before anything is written."""
    signature = _signature(graph, export.schema)
    return Description(
        name=export.name or to_snake_case(type(export.model).__name__),
        version=version,
        generation=export.generation,
        sequence=export.sequence,
        global_step=export.global_step,
        created=time.time(),
        plan=json.loads(export.plan.to_json()),
        plan_hash=export.plan.hash,
        signature=signature,
        signatures=graph.signatures,
        records=_record_columns(signature, export.schema),
        rows=_row_inputs(graph, export.plan),
        columns=graph.columns,
        weights=graph.weights,
        tables={},
        files={},
    )


def _warm_up(export: Export, description: Description) -> bytes:
    signature, signatures = description.signature, description.signatures
    if export.warm_up is None:
        return requests_to_bytes(made_requests(signature, signatures))
    check_requests(export.warm_up, signature, signatures)
    return requests_to_bytes(export.warm_up)


def _write_dense(folder: Path, graph: DenseGraph, weights: Mapping[str, Array]) -> None:
    """Write the weights, and the graph that finds them there by their place in the file."""
    missing = sorted(set(graph.weights) - set(weights))
    if missing:
        raise ValueError(f"the graph reads the dense weight {missing[0]!r}, which the weights do not have")
    path = folder / WEIGHTS_FILE
    save_arrays(weights, path)
    (folder / GRAPH_FILE).write_bytes(graph_bytes(graph, WEIGHTS_FILE, weight_places(path)))


def _write_tables(description: Description, unfinished: UnfinishedVersion, export: Export) -> Description:
    """Write all rows and return the description with them."""
    if isinstance(export.tables, MultiTable):
        configs, num_rows = _write_own_tables(export.tables, unfinished, export)
    else:
        assert not isinstance(export.tables, RowsOfVersion)
        skips = export.skip_zero_embedding
        num_rows, sequences = export.tables.write(unfinished.tables_of, skip_zero_embedding=skips)
        configs = {
            name: serving_config(config, skip_zero_embedding=skips) for name, config in export.plan.tables().items()
        }
        description = replace(description, shard_sequences=tuple(sequences))
    return replace(
        description,
        tables={name: _written(name, config, sum(one[name] for one in num_rows)) for name, config in configs.items()},
        shards=() if export.num_shards is None else unfinished.sync_shards(num_rows),
    )


def _write_own_tables(
    tables: MultiTable, unfinished: UnfinishedVersion, export: Export
) -> tuple[dict[str, TableConfig], list[dict[str, int]]]:
    """Write one table after the other: only one is in memory twice. Return their configurations, and rows by shard."""
    configs: dict[str, TableConfig] = {}
    num_rows: list[dict[str, int]] = [{} for _ in range(export.num_shards or 1)]
    for name in export.plan.tables():
        served = to_serving(
            tables[name],
            export.compressors.get(name),
            export.progress,
            skip_zero_embedding=export.skip_zero_embedding,
        )
        configs[name] = served.config
        path = unfinished.tables_of(0) / name
        served.save(path, num_shards=export.num_shards, plan_hash=export.plan.hash, generation=export.generation)
        if export.num_shards is None:
            num_rows[0][name] = len(served)
            continue
        for shard, rows in enumerate(num_rows):
            file = Path(native.shard_file_name(str(path), shard, export.num_shards))
            rows[name] = native.read_table_file_info(str(file)).num_rows
            file.rename(unfinished.tables_of(shard) / file.name)
    return configs, num_rows


def _with_rows_of(description: Description, path: Path) -> Description:
    """Return the description of a version that shares the rows of another one."""
    rows = Description.read(path)
    if not rows.shards:
        raise ValueError(
            f"Only DISTRIBUTED mode is allowed when dense_only=True: {path} is of one folder, and a version without "
            "rows of its own would need it; export all of it"
        )
    if rows.plan_hash != description.plan_hash:
        raise ValueError(f"dense_only=True: the rows of {path} are of another lookup plan; export all of it")
    # Deltas since those rows are still to come. Of a trainer before the last restore none do: 0 asks for everything.
    is_same = rows.generation == description.generation
    return replace(
        description,
        tables=rows.tables,
        shards=rows.shards,
        sequence=rows.sequence if is_same else 0,
        shard_sequences=rows.shard_sequences if is_same else tuple(0 for _ in rows.shard_sequences),
    )


def _written(name: str, config: TableConfig, num_rows: int) -> dict[str, Any]:
    return {**config_to_json(config), "num_rows": num_rows, "files": f"{TABLES_FOLDER}/{name}"}


def _signature(graph: DenseGraph, schema: Schema) -> Signature:
    """Inputs are the columns that predictions need, in the order of the schema."""
    needed = {feature for feature, _ in graph.slices.values()} | set(graph.columns.values())
    absent = needed - set(schema.names)
    if absent:
        raise ValueError(f"the plan looks up {sorted(absent)[0]!r}, but the schema has only {', '.join(schema.names)}")
    no_ids = [feature for feature, _ in graph.slices.values() if schema.types[feature].item != "int64"]
    if no_ids:
        raise ValueError(f"the model looks up {no_ids[0]!r}: requests must have int64 or texts there, not other values")
    return Signature(tuple(_input(name, schema) for name in schema.names if name in needed), graph.outputs)


def _record_columns(signature: Signature, schema: Schema) -> RecordColumns | None:
    """Return how records of the source give the inputs; None if it has none, or they lack an input."""
    if schema.records is None:
        return None
    types = {spec.name: spec.column_type for spec in signature.inputs}
    found = RecordColumns.from_json(schema.records).only(types)
    is_whole = found is not None and {column.name: column.dtype for column in found.columns} == types
    return found if is_whole else None


def _input(name: str, schema: Schema) -> TensorSpec:
    kind = schema.types[name]
    # Ids that are hashes of texts in the data are so in requests, too.
    datatype = TEXT if kind.is_hash else _DATATYPES[kind.item]
    shape = (-1, -1) if kind.is_ragged else (-1, *kind.event_shape)
    return TensorSpec(name, datatype, shape, _missing(kind, name, schema))


def _missing(kind: ColumnType, name: str, schema: Schema) -> int | float | None:
    """Return what training reads in place of a missing value; None if that is unknown or an error."""
    if schema.missing is None:
        return None
    fill = schema.missing.get(name, "" if kind.is_hash else None)
    if kind.is_hash:
        return int(ids_of_texts([fill])[0]) if isinstance(fill, str | bytes | int) else None
    if not isinstance(fill, int | float) or not math.isfinite(fill):
        return None
    return int(fill) if kind.item == "int64" else float(fill)


def _row_inputs(graph: DenseGraph, plan: LookupPlan) -> dict[str, RowInput]:
    tables = {feature.name: feature.table for feature in plan.features}
    inputs = {}
    for name, (feature, slice_name) in graph.slices.items():
        offset, dim = plan.places[feature, slice_name]
        inputs[name] = RowInput(feature=feature, slice_name=slice_name, table=tables[feature], offset=offset, dim=dim)
    return inputs
