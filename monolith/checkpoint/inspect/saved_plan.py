"""The lookup plan that a snapshot was made for, taken with suspicion."""

from pathlib import Path

from monolith.checkpoint.format.manifest import Manifest, has_rows
from monolith.errors import CorruptFileError
from monolith.model import LookupPlan


def saved_plan(folder: Path, manifest: Manifest) -> LookupPlan:
    """Return the plan, without tables for dense weights that were saved alone.

    It is a CorruptFileError if it is none, or if a table's name would lead out of a folder.
    """
    if not has_rows(manifest):
        return LookupPlan((), ())
    try:
        plan = LookupPlan.from_json(manifest.plan)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"the lookup plan of {folder} cannot be read: {error}") from error
    for table in plan.planned_tables:
        if table.name in ("", ".", "..") or {"/", "\\", "\0"} & set(table.name):
            raise CorruptFileError(
                f"the lookup plan of {folder} has a table {table.name[:40]!r}, which is no file name"
            )
    return plan
