"""Operands of a filter kept in a file: a serialized `FilterValues` message."""

from pathlib import Path

from google.protobuf.message import DecodeError

from monolith.errors import CorruptFileError
from monolith.protos.example_pb2 import FilterValues


def read_filter_values(path: str) -> list[float] | list[int] | list[bytes]:
    """Return the values of the one list that the file holds.

    Raises:
        FileNotFoundError: There is no such file.
        CorruptFileError: It is no `FilterValues` message, or one without a list.
    """
    try:
        message = FilterValues.FromString(Path(path).read_bytes())
    except DecodeError as error:
        raise CorruptFileError(f"{path} must hold a serialized FilterValues message: {error}") from error
    kind = message.WhichOneof("type")
    if kind is None:
        raise CorruptFileError(f"{path} holds a FilterValues message without values; one list must be set")
    return list(getattr(message, kind).value)
