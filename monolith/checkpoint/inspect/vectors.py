"""The vectors of a feature: a slice of each row, with its id, for programs that search or cluster them."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from monolith.checkpoint.format.manifest import check_has_rows
from monolith.checkpoint.inspect.row_texts import hashed_tables, kept_strings_of
from monolith.checkpoint.inspect.saved_plan import saved_plan
from monolith.checkpoint.inspect.table_files import checked_manifest, table_files
from monolith.data.columnar.arrow import arrow
from monolith.features.fid import slot_of_v2
from monolith.features.kept_strings import KeptStrings
from monolith.model import LookupPlan

PARQUET, FAISS = ".parquet", ".faiss"
METRICS = ("dot", "l2")

_Vectors = tuple[NDArray[np.int64], NDArray[np.float32]]


def export_vectors(
    snapshot: Path,
    feature: str,
    out: Path,
    *,
    slice_name: str | None = None,
    slot: int | None = None,
    metric: str = "dot",
) -> int:
    """Write id and vector of every row of a feature to a file `.parquet` or `.faiss`; return how many.

    A vector is the slice of this name, or the only slice there is. With a `slot`, only ids of that slot are written:
    for a table whose ids are fids. The file gets its name when it is complete. In Parquet there are the columns `id`,
    `vector` and, where runs kept texts, `text`. `metric` is how FAISS compares vectors: "dot" or "l2".

    Raises:
        ValueError: There is no such feature or slice, or the name of the file ends in another way.
    """
    if out.suffix not in (PARQUET, FAISS):
        raise ValueError(f"vectors are written to a file {PARQUET} or {FAISS}, got {out}")
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    manifest = checked_manifest(snapshot)
    check_has_rows(snapshot, manifest)
    plan = saved_plan(snapshot, manifest)
    table, first, dim = _place(plan, feature, slice_name)
    vectors = _vectors(snapshot, plan, table, slice(first, first + dim), slot)
    strings = kept_strings_of(snapshot) if table in hashed_tables(plan, manifest) else None
    temporary = out.with_name(f"{out.name}.tmp")
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        if out.suffix == FAISS:
            count = _write_faiss(vectors, temporary, dim, metric)
        else:
            count = _write_parquet(vectors, temporary, dim, strings)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _place(plan: LookupPlan, feature: str, slice_name: str | None) -> tuple[str, int, int]:
    """Return the table of a feature, where in its rows the slice begins, and its width."""
    of_features = {one.name: one.table for one in plan.features}
    tables = {one.name: one for one in plan.planned_tables}
    table = tables.get(of_features.get(feature, feature))
    if table is None:
        raise ValueError(f"there is no feature or table {feature!r}; there are {', '.join(sorted(of_features))}")
    places = table.slice_places()
    if slice_name is None and len(places) == 1:
        (slice_name,) = places
    if slice_name not in places:
        raise ValueError(f"name a slice of {feature!r}: {', '.join(places)}; got {slice_name!r}")
    return table.name, *places[slice_name]


def _vectors(snapshot: Path, plan: LookupPlan, table: str, columns: slice, slot: int | None) -> Iterator[_Vectors]:
    for rows in table_files(snapshot, table, plan.tables()[table]).parts():
        taken = np.ones(len(rows.ids), bool) if slot is None else _slots(rows.ids) == slot
        if taken.any():
            yield rows.ids[taken], np.ascontiguousarray(rows.weights[taken, columns])


def _slots(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    slots: NDArray[np.int64] = slot_of_v2(torch.from_numpy(ids)).numpy()
    return slots


def _write_faiss(vectors: Iterator[_Vectors], path: Path, dim: int, metric: str) -> int:
    index: Any = import_module("monolith.checkpoint.inspect.faiss_index").FaissIndex(dim, metric)
    count = 0
    for ids, rows in vectors:
        index.add(ids, rows)
        count += len(ids)
    index.write(path)
    return count


def _write_parquet(vectors: Iterator[_Vectors], path: Path, dim: int, strings: KeptStrings | None) -> int:
    pa, parquet = arrow(), arrow("parquet")
    fields = [("id", pa.int64()), *([] if strings is None else [("text", pa.string())])]
    schema = pa.schema([*fields, ("vector", pa.list_(pa.float32(), dim))])
    count = 0
    with parquet.ParquetWriter(path, schema, write_page_checksum=True) as writer:
        for ids, rows in vectors:
            columns: list[Any] = [pa.array(ids)]
            if strings is not None:
                columns.append(pa.array([strings.text(id_) for id_ in ids.tolist()], pa.string()))
            columns.append(pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), dim))
            writer.write_batch(pa.record_batch(columns, schema=schema))
            count += len(ids)
    return count
