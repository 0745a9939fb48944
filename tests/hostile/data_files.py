"""Damaged files of events, of every form that there is."""

import itertools
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from monolith.data import EventLogSource, EventLogWriter, Schema
from monolith.data.columnar import ArrowSource, ColumnError, CsvSource, JsonLinesSource, ParquetSource
from monolith.data.files import PbFileWriter, RecordFileSource, TFRecordWriter
from monolith.errors import CorruptFileError
from tests.hostile.children import Attacker, Outcome, attack_in_children
from tests.hostile.damage import damaged
from tests.hostile.report import Report

COUNT = 840
REFUSALS = (CorruptFileError, ColumnError, FileNotFoundError)
NUM_EVENTS = 60
BATCH = 7
COLUMNS = Schema.of(uid="int64", price="float32", tags="int64[]", dense="float32[3]", query="bytes", city="bytes")
FIXED = Schema.of(uid="int64", price="float32", dense="float32[3]")
LINES = Schema.of(uid="int64", price="float32", tags="int64[]", query="bytes")


@dataclass(frozen=True)
class Form:
    """A form of files: how one is written, read, and what must show that it was damaged."""

    write: Callable[[Path], None]
    source: Callable[[Path, str], Any]
    """Returns a source; the second argument is "raise" or "skip"."""

    guard: str
    """What a checksum covers: "all", "records" (each, so that whole ones may be missing without a trace), "none"."""

    skips: bool = False
    """Whether bad records can be left out."""


def attack(seed: int, count: int) -> Report:
    """Damage `count` files, of all forms by turns, and read them."""
    return attack_in_children("data", __name__, seed, count)


def prepare(folder: Path) -> Attacker:
    """Write a good file of each form, and return what damages and reads them."""
    good: dict[str, dict[str, bytes]] = {}
    expected: dict[str, list[str]] = {}
    for name, form in FORMS.items():
        place = folder / f"good.{name}"
        form.write(place)
        good[name] = _content(place)
        expected[name] = events_of(form.source(place, "raise"))
        assert len(expected[name]) == NUM_EVENTS, name

    def one(dice: random.Random, number: int) -> Outcome:
        name = list(FORMS)[number % len(FORMS)]
        form = FORMS[name]
        files = dict(good[name])
        changed = dice.choice(sorted(files))
        way, files[changed] = damaged(files[changed], dice)
        place = folder / f"{number}.{name}"
        _write(files, place)
        on_error = "skip" if form.skips and dice.random() < 0.25 else "raise"
        try:
            source = form.source(place, on_error)
            events = events_of(source)
        except REFUSALS:
            return Outcome(name, "refused")
        except Exception as error:
            error.part = name
            raise
        if events == expected[name]:
            return Outcome(name, "read_right")
        made_up = [event for event in events if event not in expected[name]]
        if not made_up and on_error == "skip" and source.num_skipped:
            return Outcome(name, "refused")
        if form.guard == "none" or (form.guard == "records" and not made_up):
            return Outcome(name, "unseen")
        return Outcome(name, "wrong_values", f"{way} in {changed}: {len(events)} events, such as {made_up[:1]}")

    return one


def events_of(batches: Iterable[Any]) -> list[str]:
    """Return every event as text, which is the same where all bits are."""
    events = []
    for batch in batches:
        columns = {name: c.to_list() if hasattr(c, "to_list") else c.tolist() for name, c in batch.columns.items()}
        events += [repr(event) for event in zip(*columns.values(), strict=True)]
    return events


def _content(place: Path) -> dict[str, bytes]:
    """Return the files of a folder by name, or the one file."""
    if place.is_file():
        return {"": place.read_bytes()}
    return {one.name: one.read_bytes() for one in place.iterdir() if one.suffix in (".events", ".json")}


def _write(files: dict[str, bytes], place: Path) -> None:
    if set(files) == {""}:
        place.write_bytes(files[""])
        return
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)


def _table() -> pa.Table:
    draw = np.random.default_rng(7)
    lengths = draw.integers(0, 4, NUM_EVENTS)
    return pa.table(
        {
            "uid": pa.array(draw.integers(0, 1 << 60, NUM_EVENTS), pa.int64()),
            "price": pa.array(draw.random(NUM_EVENTS), pa.float64()),
            "tags": pa.array([draw.integers(-9, 9, n).tolist() for n in lengths], pa.list_(pa.int64())),
            "dense": pa.array(draw.random((NUM_EVENTS, 3)).astype("f4").tolist(), pa.list_(pa.float32(), 3)),
            "query": pa.array(["ä" * int(n) for n in draw.integers(0, 9, NUM_EVENTS)]),
            "city": pa.array([f"c{n}" for n in draw.integers(0, 3, NUM_EVENTS)]).dictionary_encode(),
        }
    )


def _records() -> list[bytes]:
    return [json.dumps(row).encode() for row in _table().select(["uid", "price"]).to_pylist()]


def _write_records(place: Path) -> None:
    with TFRecordWriter(str(place)) as writer:
        writer.write_all(_records())


def _write_pb(place: Path) -> None:
    with PbFileWriter(str(place)) as writer:
        writer.write_all(_records())


def _record_source(framing: str) -> Callable[[Path, str], Any]:
    return lambda place, on_error: RecordFileSource(str(place), batch_size=BATCH, framing=framing, on_error=on_error)


def _write_parquet(**options: Any) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        pa.parquet.write_table(_table(), place, row_group_size=16, write_page_checksum=True, **options)

    return write


def _write_arrow(make: Callable[..., Any], **options: Any) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        table = _table()
        with pa.OSFile(str(place), "wb") as file, make(file, table.schema, **options) as writer:
            writer.write_table(table, 16)

    return write


def _write_csv(place: Path) -> None:
    rows = _table().to_pylist()
    lines = [f'{row["uid"]},{row["price"]!r},{"|".join(map(str, row["tags"]))},"{row["query"]}"' for row in rows]
    _write_lines(place, ["uid,price,tags,query", *lines])


def _write_json(place: Path) -> None:
    _write_lines(place, [json.dumps(row) for row in _table().select(LINES.names).to_pylist()])


def _write_lines(place: Path, lines: list[str]) -> None:
    with pa.output_stream(str(place)) as file:  # packed, if the name ends so
        file.write("".join(f"{line}\n" for line in lines).encode())


def _write_log(place: Path) -> None:
    rows = _table()
    columns = {name: np.array(rows.column(name).to_pylist(), "i8" if name == "uid" else "f4") for name in FIXED.names}
    with EventLogWriter(place, FIXED) as writer:
        for begin, end in itertools.pairwise(range(0, NUM_EVENTS + 1, 10)):
            writer.append({name: column[begin:end] for name, column in columns.items()})


FORMS = {
    "tfrecord": Form(_write_records, _record_source("tfrecord"), "records", skips=True),
    "tfrecord.gz": Form(_write_records, _record_source("tfrecord"), "records", skips=True),
    "tfrecord.zst": Form(_write_records, _record_source("tfrecord"), "records", skips=True),
    "pb": Form(_write_pb, _record_source("pb"), "none", skips=True),
    "parquet": Form(_write_parquet(), lambda place, _: ParquetSource(place, BATCH, COLUMNS), "all"),
    "v2.parquet": Form(
        _write_parquet(compression="zstd", data_page_version="2.0", data_page_size=64),
        lambda place, _: ParquetSource(place, BATCH, COLUMNS),
        "all",
    ),
    "arrow": Form(_write_arrow(pa.ipc.new_file), lambda place, _: ArrowSource(place, BATCH, COLUMNS), "none"),
    "stream.arrow": Form(_write_arrow(pa.ipc.new_stream), lambda place, _: ArrowSource(place, BATCH, COLUMNS), "none"),
    "feather": Form(
        lambda place: pa.feather.write_feather(_table(), str(place), chunksize=16, compression="lz4"),
        lambda place, _: ArrowSource(place, BATCH, COLUMNS),
        "none",
    ),
    "csv": Form(
        _write_csv, lambda place, on_error: CsvSource(place, LINES, batch_size=BATCH, on_error=on_error), "none", True
    ),
    "csv.gz": Form(_write_csv, lambda place, _: CsvSource(place, LINES, batch_size=BATCH), "all"),
    "jsonl": Form(
        _write_json,
        lambda place, on_error: JsonLinesSource(place, LINES, batch_size=BATCH, on_error=on_error),
        "none",
        True,
    ),
    "events": Form(_write_log, lambda place, _: EventLogSource(place, batch_size=BATCH), "records"),
}
