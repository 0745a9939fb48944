"""One row of a snapshot, for people: its values, its optimizer's state, or why it reads as zero."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from google.protobuf.json_format import MessageToDict

from monolith._core import native
from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.layout import TABLES_NAME
from monolith.checkpoint.format.manifest import MANIFEST_NAME, check_has_rows
from monolith.checkpoint.inspect.row_texts import hashed_tables, kept_strings_of
from monolith.checkpoint.keep.latest import latest_state
from monolith.checkpoint.restore.apply_delta import apply_delta, restore_filter
from monolith.embedding import Table
from monolith.embedding.shard_files import NotFinite
from monolith.features.string_hash import hash_bytes
from monolith.model import LookupPlan, PlannedTable, make_tables
from monolith.protos.embedding_hash_table_pb2 import EntryDump

SECONDS_PER_DAY = 86400


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceReport:
    """One slice of a row."""

    name: str

    values: list[float]

    optimizer: str
    """Kind of its optimizer."""

    state: dict[str, Any]
    """What the optimizer remembers, by name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowReport:
    """What a snapshot knows of an id."""

    snapshot: Path

    table: str

    id: int

    text: str | None = None
    """The text that has this id, where it is known."""

    found: bool
    """Whether it has a row; one without reads as zeros."""

    slices: list[SliceReport] = field(default_factory=list)

    last_seen: int = 0
    """Seconds since 1970; 0 if events have no time."""

    notes: list[str] = field(default_factory=list)
    """Sentences: why there is no row, or how long it will stay."""


def read_row(path: str | os.PathLike[str], table: str, id_: int | str) -> RowReport:
    """Return what the newest state in a model's folder, or the snapshot or delta `path` itself, knows of an id.

    `table` is the name of a table, or of a feature. Only that table is read, into memory. An id may be given as text:
    of a column of type "hash" it is the text itself, of others a number.
    """
    snapshot = Path(path) if (Path(path) / MANIFEST_NAME).is_file() else latest_state(path)
    if snapshot is None:
        raise FileNotFoundError(f"there is no snapshot in {os.fspath(path)}; name the model_dir of a run")
    links = chain_to(snapshot)
    manifest = check_chain(links)[-1]
    check_has_rows(snapshot, manifest)
    plan = LookupPlan.from_json(manifest.plan)
    planned = _planned_table(plan, table)
    hashed = planned.name in hashed_tables(plan, manifest)
    strings = kept_strings_of(snapshot) if hashed else None
    text = id_ if hashed and isinstance(id_, str) else None
    id_ = _number(id_, planned.name, hashed=hashed)
    if text is None and strings is not None:
        text = strings.text(id_)
    rows = make_tables(LookupPlan((), (planned,)))[planned.name]
    rows.restore(links[0] / TABLES_NAME / planned.name, not_finite=NotFinite.KEEP)  # also one that no run would take
    for delta in links[1:]:
        apply_delta(delta, {planned.name: rows}, not_finite=NotFinite.KEEP)
    if rows.admission is not None:
        restore_filter(links, planned.name, rows.admission)
    now = int(manifest.extra.get("clock", {}).get("now", 0))
    (entry,) = rows.lookup_entry(torch.tensor([id_]))
    if not entry:
        return RowReport(
            snapshot=snapshot, table=planned.name, id=id_, text=text, found=False, notes=_why_none(rows, planned, id_)
        )
    dump = EntryDump.FromString(entry)
    return RowReport(
        snapshot=snapshot,
        table=planned.name,
        id=id_,
        text=text,
        found=True,
        slices=_slices(planned, dump),
        last_seen=dump.last_update_ts_sec,
        notes=_how_long(planned, dump.last_update_ts_sec, now),
    )


def _number(id_: int | str, table: str, *, hashed: bool) -> int:
    if isinstance(id_, str) and hashed:
        return hash_bytes(id_.encode())
    try:
        number = int(id_)
    except ValueError:
        raise ValueError(
            f"the ids of table {table} are numbers, got {id_!r}; text is for columns of type hash, "
            "and the snapshot names none of this table"
        ) from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"an id is a 64-bit integer, got {number}")
    return number


def _planned_table(plan: LookupPlan, name: str) -> PlannedTable:
    tables = {table.name: table for table in plan.planned_tables}
    features = {feature.name: feature.table for feature in plan.features}
    found = tables.get(name) or tables.get(features.get(name, ""))
    if found is None:
        raise ValueError(f"the snapshot has no table or feature {name!r}; it has {', '.join({**tables, **features})}")
    return found


def _slices(planned: PlannedTable, dump: EntryDump) -> list[SliceReport]:
    # Moving averages have no state and no place in the dump.
    states = iter(dump.opt.dump)
    reports = []
    for one in planned.slices:
        begin, dim = planned.slice_places()[one.name]
        kind = one.segment.optimizer.kind
        state = {} if kind == "moving_average" else MessageToDict(next(states), preserving_proto_field_name=True)
        values = list(dump.num[begin : begin + dim])
        reports.append(SliceReport(name=one.name, values=values, optimizer=kind, state=dict(state.get(kind, {}))))
    return reports


def _why_none(table: Table, planned: PlannedTable, id_: int) -> list[str]:
    days, threshold = planned.expire_days, planned.occurrence_threshold
    gone = f"or its row expired, {days} days after its last update, and was removed"
    counts = None if table.admission is None else table.admission.native_filter
    if not isinstance(counts, native.SlidingHashFilter):
        return [f"it has no row and reads as zero: it was never trained on, {gone}"]
    seen = counts.get(id_)
    if seen == 0:
        return [f"it has no row and reads as zero: it was never seen, so long ago that it is forgotten, {gone}"]
    if seen <= threshold:
        return [
            f"it has no row and reads as zero: it was seen {seen} times, and gets a row at sighting {threshold + 1} "
            f"(occurrence_threshold={threshold})"
        ]
    return [f"it has no row and reads as zero: it was seen often enough, {gone}"]


def _how_long(planned: PlannedTable, last_seen: int, now: int) -> list[str]:
    if not last_seen or not now:
        return []
    left = last_seen + planned.expire_days * SECONDS_PER_DAY - now
    if left < 0:
        return [f"it has expired (expire_time={planned.expire_days} days): the next eviction removes it"]
    return [f"it expires {left / SECONDS_PER_DAY:.1f} days after the newest event, unless it is seen again"]
