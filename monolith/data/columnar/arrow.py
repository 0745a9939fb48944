"""The one place where pyarrow, which is optional, comes in."""

import importlib
from typing import Any


def arrow(part: str = "") -> Any:
    """Return pyarrow or a module of it, such as "parquet".

    Raises:
        ModuleNotFoundError: It is not installed; the message has the command.
    """
    try:
        return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Parquet, Arrow and JSON files and data frames need the package {error.name!r}, "
            "which is not installed: pip install 'monolith-recsys[columnar]'",
            name=error.name,
        ) from error
