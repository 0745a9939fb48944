"""A model as files to serve: `write_export` writes a version, `load_export` makes it answer.

Writing needs onnx and onnxscript, loading needs onnxruntime: ``pip install 'monolith-recsys[serving]'``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monolith.export.imported import import_saved_model
    from monolith.export.load import load_export, load_newest_export
    from monolith.export.serving_model import ServingModel
    from monolith.export.versions import latest_version, newest_export, next_version, remove_unfinished
    from monolith.export.write import Export, RowsOfVersion, trace_model, write_export

__all__ = [
    "Export",
    "RowsOfVersion",
    "ServingModel",
    "import_saved_model",
    "latest_version",
    "load_export",
    "load_newest_export",
    "newest_export",
    "next_version",
    "remove_unfinished",
    "trace_model",
    "write_export",
]

# Loaded when first asked for: a server must not wait for what only writing needs, nor the other way round.
_HOMES = {
    "Export": "write",
    "RowsOfVersion": "write",
    "ServingModel": "serving_model",
    "import_saved_model": "imported",
    "latest_version": "versions",
    "load_export": "load",
    "load_newest_export": "load",
    "newest_export": "versions",
    "next_version": "versions",
    "remove_unfinished": "versions",
    "trace_model": "write",
    "write_export": "write",
}


def __getattr__(name: str) -> object:
    """Return a name of this package from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
