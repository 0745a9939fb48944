"""Tables such as a checkpoint says it holds, made only if its files say so, too."""

from pathlib import Path

from monolith._core import native
from monolith.checkpoint.format.layout import TABLES_NAME
from monolith.checkpoint.format.manifest import Manifest, check_has_rows
from monolith.embedding import MultiTable, TableConfig
from monolith.embedding.shard_files import find_shard_files
from monolith.errors import CorruptFileError
from monolith.model import LookupPlan, make_tables


def saved_configs(folder: Path, manifest: Manifest) -> dict[str, TableConfig]:
    """Return the tables of a checkpoint whose files are checked, by name; making one takes no more than its rows do.

    Raises:
        CorruptFileError: The plan is none, names a table that is no file name, or one with other rows than its files.
        ValueError: It has dense weights only.
    """
    check_has_rows(folder, manifest)
    try:
        configs = LookupPlan.from_json(manifest.plan).tables()
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"the lookup plan of {folder} cannot be read: {error}") from error
    for name, config in configs.items():
        if name in ("", ".", "..") or {"/", "\\", "\0"} & set(name):
            raise CorruptFileError(f"the lookup plan of {folder} has a table {name[:40]!r}, which is no file name")
        _check_widths(folder, name, config)
    return configs


def make_saved_tables(folder: Path, manifest: Manifest) -> MultiTable:
    """Return empty tables for the rows of a checkpoint; a CorruptFileError if it asks for more memory than there is."""
    saved_configs(folder, manifest)
    try:
        return make_tables(LookupPlan.from_json(manifest.plan))
    except (MemoryError, OverflowError) as error:
        raise CorruptFileError(f"the lookup plan of {folder} asks for more memory than there is: {error}") from error


def _check_widths(folder: Path, name: str, config: TableConfig) -> None:
    try:
        paths = find_shard_files(str(folder / TABLES_NAME / name))
        widths = {native.read_table_file_info(path).weight_bytes for path in paths}
    except (FileNotFoundError, ValueError) as error:
        raise CorruptFileError(f"table {name!r} of {folder} cannot be read: {error}") from error
    if widths != {4 * config.dim}:
        raise CorruptFileError(
            f"table {name!r} of {folder} has {config.dim} floats per row in the lookup plan, its files have rows of "
            f"{', '.join(map(str, sorted(widths)))} bytes"
        )
