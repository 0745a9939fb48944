"""The folder of an event log: its schema file, its lock, and how files come into being in one piece."""

import fcntl
import os
from pathlib import Path

from monolith.data.schema import Schema
from monolith.errors import CorruptFileError, MonolithError

SCHEMA_FILE = "schema.json"
LOCK_FILE = "writer.lock"
TEMPORARY_SUFFIX = ".tmp"


class LogInUseError(MonolithError, RuntimeError):
    """Another process writes to the event log; one at a time may."""


def read_schema(path: Path) -> Schema:
    """Return the schema of the log in folder `path`.

    Raises:
        FileNotFoundError: There is no log.
        CorruptFileError: Its schema file is damaged.
    """
    file = path / SCHEMA_FILE
    try:
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(
            f"no event log at {path}: {SCHEMA_FILE} is not there; EventLogWriter(path, schema) makes one"
        ) from error
    try:
        return Schema.from_json(data.decode())
    except ValueError as error:
        raise CorruptFileError(f"{file}: {error}") from error


def write_in_one_piece(file: Path, data: bytes) -> None:
    """Write a file that, after a crash at any moment, is there wholly or not at all."""
    temporary = file.with_name(file.name + TEMPORARY_SUFFIX)
    with open(temporary, "wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def lock_for_writing(path: Path) -> int:
    """Return a descriptor that holds the log's lock until it is closed or its process ends.

    Raises:
        LogInUseError: Another writer holds it; the message has its process id.
    """
    handle = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise LogInUseError(
            f"event log {path} is being written by process {owner}; close that writer first, or write to another folder"
        ) from error
    # The file stays when the lock goes: removing it would let two writers lock two different files.
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
    return handle
