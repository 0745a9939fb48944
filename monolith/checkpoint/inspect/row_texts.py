"""Which tables of a snapshot have ids of texts, and which texts are known."""

from pathlib import Path

from monolith.checkpoint.format.manifest import Manifest
from monolith.features.kept_strings import STRINGS_NAME, KeptStrings
from monolith.model import LookupPlan


def hashed_tables(plan: LookupPlan, manifest: Manifest) -> set[str]:
    """Return the names of the tables whose ids come from a column of type "hash"."""
    columns = set(manifest.extra.get("hash_columns", []))
    return {feature.table for feature in plan.features if feature.name in columns}


def kept_strings_of(snapshot: Path) -> KeptStrings | None:
    """Return the texts that runs in the folder of a snapshot remembered; None if they did not, see `keep_strings`."""
    path = snapshot.parent / STRINGS_NAME
    return KeptStrings.read(path) if path.is_file() else None
