"""The text file `ExportSaverListenerState`: the versions in an export base with their steps, as the original wrote it.

It is made from the versions that are there, and nothing here reads it: ``model.json`` of each version is the truth.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from monolith.checkpoint.format.state_files.text_files import message_text, write_text
from monolith.errors import CorruptFileError
from monolith.export.description import Description
from monolith.export.versions import complete_versions, version_path
from monolith.protos.export_state_pb2 import ServingModelState

EXPORT_STATE_FILE = "ExportSaverListenerState"

_log = logging.getLogger(__name__)


def write_export_state(base: Path) -> None:
    """Write the file into the base, or for the distributed layout into `entry` and the folder of each shard.

    A failure is only logged: the versions are there.
    """
    try:
        for folder, versions in _versions_by_folder(base).items():
            state = ServingModelState()
            for path, step in versions.items():
                state.entries.add(export_dir=str(path), global_step=step)
            write_text(str(folder / EXPORT_STATE_FILE), message_text(state))
    except OSError as error:
        _log.warning("%s in %s is not up to date: %s", EXPORT_STATE_FILE, base, error)


def _versions_by_folder(base: Path) -> Mapping[Path, Mapping[Path, int]]:
    """Return the folders of versions and of their parts by the folder above them, each with its step, oldest first."""
    found: dict[Path, dict[Path, int]] = {}
    for version in complete_versions(base):
        path = version_path(base, version)
        try:
            description = Description.read(path)
        except CorruptFileError:
            continue  # nobody knows its step
        for part in (path, *(base / shard.folder for shard in description.shards)):
            found.setdefault(part.parent, {})[part] = description.global_step
    return found
