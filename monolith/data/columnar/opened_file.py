"""A file as pyarrow reads it, wherever it lies."""

import os
from typing import Any

import fsspec

from monolith.data.columnar.arrow import arrow


def open_for_arrow(path: str) -> Any:
    """Return an open pyarrow file; files of this machine are read without Python in between.

    Not mapped into memory: tensors share the memory that is read, and a write to a tensor must not change the file.

    Raises:
        FileNotFoundError: It is not there.
    """
    storage, inner = fsspec.core.url_to_fs(path)
    if "file" in (storage.protocol if isinstance(storage.protocol, tuple) else (storage.protocol,)):
        if not os.path.exists(inner):
            raise FileNotFoundError(f"there is no file {path}")
        return arrow().OSFile(inner)
    return arrow().PythonFile(storage.open(inner, "rb"), mode="r")
