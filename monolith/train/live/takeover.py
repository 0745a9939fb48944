"""first_generation: a run that takes over the servers of others comes after them."""

from pathlib import Path

from monolith.errors import CorruptFileError
from monolith.export.description import Description
from monolith.export.versions import complete_versions, version_path


def first_generation(export_base: Path) -> int:
    """Return a generation above that of every version in a folder; 0 if it has none.

    Servers take nothing from an earlier generation than the one they follow. A model with another lookup plan is
    trained in a new `model_dir`, where generations would begin again: nobody would ever serve it.
    """
    generations = [-1]
    for version in complete_versions(export_base):
        try:
            generations.append(Description.read(version_path(export_base, version)).generation)
        except (CorruptFileError, OSError):
            continue  # servers pass over it too
    return max(generations) + 1
