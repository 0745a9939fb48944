"""Loading an export: files become a model that answers. No class of the user's is needed, and nothing is executed."""

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load_file

from monolith.embedding import MultiTable
from monolith.errors import CorruptFileError, NotFiniteError
from monolith.export.dense_session import DenseSession
from monolith.export.description import Description
from monolith.export.serving_model import ServingModel
from monolith.export.serving_tables import config_from_json
from monolith.export.versions import GRAPH_FILE, MODEL_FILE, TABLES_FOLDER, WEIGHTS_FILE
from monolith.model import LookupPlan


def load_export(path: str | Path, *, num_threads: int = 1) -> ServingModel:
    """Return the model of one version folder, after comparing every file with its checksum.

    Args:
        path: ``<base>/<version>``.
        num_threads: threads that share the dense work of one prediction; many predictions may run at a time.

    Raises:
        CorruptFileError: the export is not complete, or a file is damaged; the message names it.
    """
    folder = Path(path)
    description = Description.read(folder)
    for needed in (GRAPH_FILE, WEIGHTS_FILE):
        if needed not in description.files:
            raise CorruptFileError(f"{folder / MODEL_FILE} does not list {needed}; export the model again")
    description.check_files(folder)
    plan = _plan(folder, description)
    tables = _tables(folder, description)
    try:
        weights = load_file(folder / WEIGHTS_FILE)
    except SafetensorError as error:
        raise CorruptFileError(f"{folder / WEIGHTS_FILE} is no safetensors file: {error}") from error
    session = DenseSession(folder / GRAPH_FILE, weights, description.weights, num_threads=num_threads)
    return ServingModel(description, plan=plan, tables=tables, session=session)


def _plan(folder: Path, description: Description) -> LookupPlan:
    plan = LookupPlan.from_json(json.dumps(description.plan))
    if plan.hash != description.plan_hash:
        raise CorruptFileError(
            f"{folder / MODEL_FILE}: its plan has the hash {plan.hash}, not {description.plan_hash}; another version "
            "of this program wrote it: export the model again"
        )
    return plan


def _tables(folder: Path, description: Description) -> MultiTable:
    tables = MultiTable({name: config_from_json(name, fields) for name, fields in description.tables.items()})
    for name, fields in description.tables.items():
        if fields["files"] != f"{TABLES_FOLDER}/{name}":
            raise CorruptFileError(f"{folder / MODEL_FILE}: table {name!r} has its files in {fields['files']!r}")
        try:
            num_rows = tables[name].restore(folder / fields["files"])
        except NotFiniteError as error:
            raise CorruptFileError(f"{folder} cannot be served, export the model again: {error}") from error
        if num_rows != fields["num_rows"]:
            raise CorruptFileError(
                f"{folder / fields['files']} has {num_rows} rows, {MODEL_FILE} says {fields['num_rows']}"
            )
    return tables
