"""Small text files in a folder that may be local or remote."""

import os
from pathlib import Path
from typing import Any, TypeVar

import fsspec
from google.protobuf import text_format
from google.protobuf.message import Message

from monolith.checkpoint.format.durable_files import write_durably
from monolith.checkpoint.format.state_files.path_forms import is_remote
from monolith.errors import CorruptFileError

M = TypeVar("M", bound=Message)

MAX_TEXT_BYTES = 16 << 20
"""A state file larger than this is not one; a path takes about a hundred bytes."""


def path_exists(path: str) -> bool:
    """Return whether there is a file or folder."""
    if not is_remote(path):
        return os.path.exists(path)
    files, name = filesystem_of(path)
    return bool(files.exists(name))


def checkpoint_exists(path: str) -> bool:
    """Return whether a state file's path leads to a snapshot of ours or to a checkpoint of TensorFlow's."""
    return path_exists(path) or path_exists(f"{path}.index")


def read_text(path: str) -> str:
    """Return a file's text.

    Raises:
        OSError: It cannot be read.
        CorruptFileError: It is too large for a state file, or not text.
    """
    if is_remote(path):
        files, name = filesystem_of(path)
        with files.open(name, "rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    else:
        with open(path, "rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise CorruptFileError(f"{path} has more than {MAX_TEXT_BYTES} bytes; it is not a state file")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is not text: {error}") from error


def write_text(path: str, text: str) -> None:
    """Write a file in one piece; a reader sees the old or the new text, never a part."""
    if not is_remote(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_durably(Path(path), text.encode())
        return
    files, name = filesystem_of(path)
    files.makedirs(files._parent(name), exist_ok=True)
    with files.open(f"{name}.tmp", "wb") as file:
        file.write(text.encode())
    files.mv(f"{name}.tmp", name)


def parse_text(path: str, text: str, message: M) -> M:
    """Return the message, filled from a text protobuf; what is none is a CorruptFileError that names the file."""
    try:
        return text_format.Parse(text, message)
    except (text_format.ParseError, RecursionError) as error:
        raise CorruptFileError(f"{path} is not a text {message.DESCRIPTOR.name}: {error}") from error


def message_text(message: Message) -> str:
    """Return a message in the text form of protobuf."""
    return text_format.MessageToString(message)


def filesystem_of(path: str) -> tuple[Any, str]:
    """Return the file system of fsspec that a path or URL is in, and its name there."""
    if path.startswith("hdfs:/") and not path.startswith("hdfs://"):
        path = path.replace("hdfs:/", "hdfs:///", 1)
    files, name = fsspec.core.url_to_fs(path)
    return files, str(name)
