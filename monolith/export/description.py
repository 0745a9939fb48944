"""What ``model.json`` says: a model's name, signature, plan and tables, and the checksums of all other files."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self, TypeVar

from monolith._core import native
from monolith.checkpoint.format.durable_files import file_crc32c
from monolith.data.parse.record_columns import RecordColumns
from monolith.delta import DeltaPart
from monolith.embedding.hash_shards import MAX_SHARDS
from monolith.errors import CorruptFileError, shown
from monolith.export.signature import NamedOutputs, Signature
from monolith.export.versions import GRAPH_FILE, MODEL_FILE, base_of, is_shard_part
from monolith.model.extra_outputs import SERVING_DEFAULT

FORMAT = "monolith-export"
MAJOR = 1
"""A reader refuses another major number."""
MINOR = 7
"""Since 1, inputs may be texts (datatype BYTES) and lists (shape [-1, -1]); since 2, null may stand for a value; since
3, several senders may bring deltas, each with a sequence of its own (`shard_sequences`); since 4, rows may be in
folders of their own (`shards`); since 5, these may have a second number, counted up when ids are forgotten; since 6, it
says how inputs are read out of records (`records`); since 7, it may have several signatures (`signatures`), and
says its step (`global_step`)."""

Kind = TypeVar("Kind", str, "dict[str, Any]")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowInput:
    """A graph input that is looked up: a stretch of a table's rows."""

    feature: str
    """Input of the model that holds the ids."""

    slice_name: str

    table: str

    offset: int
    """Where in the row it begins, in floats."""

    dim: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FileCheck:
    """What a file must be."""

    num_bytes: int

    crc32c: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return size and checksum of a file."""
        return cls(num_bytes=path.stat().st_size, crc32c=file_crc32c(path))


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardFiles:
    """The rows of one shard of a version of the distributed layout."""

    folder: str
    """Below the export base: ``ps_<i>/<version>``. The version may be an older one, whose rows this one shares. After
    ids were forgotten, a dot and a number follow."""

    files: dict[str, FileCheck]
    """By path below that folder."""

    num_rows: dict[str, int]
    """By table."""

    @classmethod
    def _of(cls, fields: Mapping[str, Any], shard: int) -> Self:
        folder = _text(fields, "folder")
        if not is_shard_part(folder, shard):
            raise ValueError(f"the rows of shard {shard} cannot be in {shown(folder)}")
        rows = _object(fields, "num_rows")
        return cls(
            folder=folder,
            files=_checks(_object(fields, "files")),
            num_rows={table: _count(rows, table) for table in rows},
        )

    def _to_json(self) -> dict[str, Any]:
        return {"folder": self.folder, "num_rows": self.num_rows, "files": _checks_to_json(self.files)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """The content of ``model.json``."""

    name: str

    version: int

    generation: int

    sequence: int
    """Deltas up to this one are in it; with several senders, those of the dense weights."""

    global_step: int = 0
    """Step of training that it is of; 0 if nobody said."""

    created: float
    """When it was written, in seconds since 1970."""

    plan: dict[str, Any]

    plan_hash: int

    signature: Signature

    signatures: dict[str, NamedOutputs]
    """What clients can ask for, by name; one is `SERVING_DEFAULT`."""

    rows: dict[str, RowInput]
    """By graph input."""

    columns: dict[str, str]
    """Graph input -> input of the model."""

    weights: dict[str, str]
    """Weight -> its name in the graph."""

    tables: dict[str, dict[str, Any]]
    """By name: dim, segments with compressors, whether rows of zeros are left out, number of rows, files."""

    files: dict[str, FileCheck] = field(default_factory=dict)
    """By path below the folder."""

    shard_sequences: tuple[int, ...] = ()
    """Of a model on parameter servers: the last delta of each shard that is in the tables."""

    shards: tuple[ShardFiles, ...] = ()
    """Of the distributed layout: where the rows of each shard are; else they are in the version's own folder."""

    records: RecordColumns | None = None
    """How the inputs are read out of serialized records; None if training did not read any."""

    @property
    def parts(self) -> dict[DeltaPart, int]:
        """The last delta of every sender that is in it."""
        family = DeltaPart(None, len(self.shard_sequences)).family()
        return dict(zip(family, (*self.shard_sequences, self.sequence), strict=True))

    def is_like(self, other: "Description") -> bool:
        """Whether two versions differ in values alone: rows and weights of one could be those of the other."""
        return (
            self.plan_hash == other.plan_hash
            and self.signature == other.signature
            and self.signatures == other.signatures
            and self.files.get(GRAPH_FILE) == other.files.get(GRAPH_FILE)
            and _formats(self.tables) == _formats(other.tables)
        )

    def to_bytes(self) -> bytes:
        """Return the file: JSON for people and machines, with a checksum of itself."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "major": MAJOR,
            "minor": MINOR,
            "name": self.name,
            "version": self.version,
            "generation": self.generation,
            "sequence": self.sequence,
            "global_step": self.global_step,
            **({"shard_sequences": list(self.shard_sequences)} if self.shard_sequences else {}),
            "created": self.created,
            "plan_hash": self.plan_hash,
            "signature": self.signature.to_json(),
            "signatures": {name: one.to_json() for name, one in self.signatures.items()},
            **({} if self.records is None else {"records": self.records.to_json()}),
            "rows": {name: _row_to_json(row) for name, row in self.rows.items()},
            "columns": self.columns,
            "weights": self.weights,
            "tables": self.tables,
            "plan": self.plan,
            "files": _checks_to_json(self.files),
            **({"shards": [shard._to_json() for shard in self.shards]} if self.shards else {}),
        }
        fields["crc32c"] = _own_checksum(fields)
        return json.dumps(fields, indent=1).encode()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return what ``model.json`` of a version says; a CorruptFileError if it is damaged or of another format."""
        path = folder / MODEL_FILE
        if not path.is_file():
            raise CorruptFileError(f"{folder} is no complete export: it has no {MODEL_FILE}, which is written last")
        try:
            fields = json.loads(path.read_bytes())
            found = (fields["format"], fields["major"])
            if found != (FORMAT, MAJOR):
                raise CorruptFileError(f"{path} is of format {shown(found)}; this program reads {(FORMAT, MAJOR)}")
            if fields.pop("crc32c") != _own_checksum(fields):
                raise CorruptFileError(f"{path} is damaged: its checksum does not fit its content")
            return cls._of(fields)
        except CorruptFileError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {shown(str(error), 200)}"
            raise CorruptFileError(f"{path} is damaged or no export: {reason}") from error

    @classmethod
    def _of(cls, fields: Mapping[str, Any]) -> Self:
        """Return what the members say; a member of another type raises a ValueError or KeyError."""
        counts = {name: _count(fields, name) for name in ("version", "generation", "sequence", "plan_hash")}
        created = fields["created"]
        if not isinstance(created, int | float) or isinstance(created, bool) or not math.isfinite(created):
            raise ValueError(f"'created' must be a number of seconds, got {shown(created)}")
        signature = Signature.from_json(_object(fields, "signature"))
        return cls(
            **counts,
            name=_text(fields, "name"),
            global_step=_count(fields, "global_step") if "global_step" in fields else 0,
            created=created,
            shard_sequences=_sequences(fields),
            plan=_object(fields, "plan"),
            columns=_texts(fields, "columns"),
            weights=_texts(fields, "weights"),
            tables={name: _object(fields["tables"], name) for name in _object(fields, "tables")},
            signature=signature,
            signatures=_signatures(fields, signature),
            records=_records(fields, signature),
            rows={name: _row_from_json(_object(fields["rows"], name)) for name in _object(fields, "rows")},
            files=_checks(_object(fields, "files")),
            shards=_shards(fields),
        )

    def check_files(self, folder: Path) -> None:
        """Compare size and checksum of every file; a CorruptFileError names the first that is not as it was written.

        Rows of shards have folders of their own: see `check_shard`.
        """
        _check_files(folder, self.files)

    def check_shard(self, folder: Path, shard: int) -> Path:
        """Compare the files of one shard of the version in `folder`; return where they are."""
        part = base_of(folder) / self.shards[shard].folder
        if part.parent.is_symlink():
            raise CorruptFileError(f"{part.parent} is a symbolic link; copy what it leads to in its place")
        _check_files(part, self.shards[shard].files)
        return part


def _check_files(folder: Path, files: Mapping[str, FileCheck]) -> None:
    refuse_links(folder)
    for name, wanted in files.items():
        parts = PurePosixPath(name).parts
        if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
            raise CorruptFileError(f"{MODEL_FILE} names the file {name!r}, which is not below its folder {folder}")
        path = folder / name
        if not path.is_file():
            raise CorruptFileError(f"{path} is missing, but {MODEL_FILE} lists it; export the model again")
        found = FileCheck.of(path)
        if found != wanted:
            raise CorruptFileError(
                f"{path} is damaged: it has {found.num_bytes} bytes with CRC-32C {found.crc32c:08x}, written were "
                f"{wanted.num_bytes} with {wanted.crc32c:08x}; copy or export the model again"
            )


def refuse_links(folder: Path) -> None:
    """Raise a CorruptFileError for a symbolic link anywhere in a version: it could lead to any file of this machine."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink():
                raise CorruptFileError(
                    f"{path} is a symbolic link; the files of an export are files: copy what it leads to in its place"
                )


def _object(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return _of_type(fields, name, dict, "an object")


def _text(fields: Mapping[str, Any], name: str) -> str:
    return _of_type(fields, name, str, "a text")


def _texts(fields: Mapping[str, Any], name: str) -> dict[str, str]:
    members = _object(fields, name)
    return {key: _text(members, key) for key in members}


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{shown(name)} must be a number from 0 on, got {shown(value)}")
    return value


def _records(fields: Mapping[str, Any], signature: Signature) -> RecordColumns | None:
    if "records" not in fields:
        return None
    found = RecordColumns.from_json(fields["records"])
    types = {column.name: column.dtype for column in found.columns}
    wanted = {spec.name: spec.column_type for spec in signature.inputs}
    if types != wanted or len(types) != len(found.columns):
        raise ValueError(f"records give the columns {shown(types)}, but the inputs are {shown(wanted)}")
    return found


def _signatures(fields: Mapping[str, Any], signature: Signature) -> dict[str, NamedOutputs]:
    known = {spec.name for spec in signature.outputs}
    if "signatures" not in fields:
        return {SERVING_DEFAULT: NamedOutputs({spec.name: spec.name for spec in signature.outputs})}
    found = {name: NamedOutputs.from_json(one) for name, one in _object(fields, "signatures").items()}
    if SERVING_DEFAULT not in found:
        raise ValueError(f"'signatures' must have {SERVING_DEFAULT!r}, got {shown(list(found))}")
    for name, one in found.items():
        unknown = sorted(set(one.outputs.values()) - known)
        if unknown:
            raise ValueError(f"signature {shown(name)} has the output {shown(unknown[0])}, which the model has not")
    return found


def _sequences(fields: Mapping[str, Any]) -> tuple[int, ...]:
    found = fields.get("shard_sequences", [])
    if not isinstance(found, list) or len(found) > MAX_SHARDS:
        raise ValueError(f"'shard_sequences' must be a list of at most {MAX_SHARDS} numbers, got {shown(found)}")
    return tuple(_count({"shard_sequences": one}, "shard_sequences") for one in found)


def _checks(members: Mapping[str, Any]) -> dict[str, FileCheck]:
    return {
        name: FileCheck(num_bytes=_count(check, "bytes"), crc32c=_count(check, "crc32c"))
        for name, check in members.items()
    }


def _checks_to_json(files: Mapping[str, FileCheck]) -> dict[str, Any]:
    return {name: {"bytes": check.num_bytes, "crc32c": check.crc32c} for name, check in sorted(files.items())}


def _shards(fields: Mapping[str, Any]) -> tuple[ShardFiles, ...]:
    found = fields.get("shards", [])
    if not isinstance(found, list) or len(found) > MAX_SHARDS:
        raise ValueError(f"'shards' must be a list of at most {MAX_SHARDS} objects, got {shown(found)}")
    return tuple(ShardFiles._of(one, shard) for shard, one in enumerate(found))


def _of_type(fields: Mapping[str, Any], name: str, kind: type[Kind], what: str) -> Kind:
    value = fields[name]
    if not isinstance(value, kind):
        raise ValueError(f"{shown(name)} must be {what}, got {shown(value)}")
    return value


def _own_checksum(fields: Mapping[str, Any]) -> int:
    crc: int = native.crc32c(json.dumps(fields, sort_keys=True).encode())
    return crc


def _formats(tables: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return how each table stores its rows."""
    return {
        name: {field: value for field, value in fields.items() if field != "num_rows"}
        for name, fields in tables.items()
    }


def _row_to_json(row: RowInput) -> dict[str, Any]:
    return {
        "feature": row.feature,
        "slice": row.slice_name,
        "table": row.table,
        "offset": row.offset,
        "dim": row.dim,
    }


def _row_from_json(fields: Mapping[str, Any]) -> RowInput:
    return RowInput(
        feature=_text(fields, "feature"),
        slice_name=_text(fields, "slice"),
        table=_text(fields, "table"),
        offset=_count(fields, "offset"),
        dim=_count(fields, "dim"),
    )
