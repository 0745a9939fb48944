"""The folder of a model: what a crash left in it, and who trains in it."""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from monolith.checkpoint.format.delta_chain import remove_orphans
from monolith.checkpoint.format.durable_files import make_folder, sync_folder
from monolith.checkpoint.format.exchange import finish_exchanges
from monolith.checkpoint.format.layout import (
    DENSE_ONLY_FOLDER,
    FETCHED_FOLDER,
    TEMPORARY_SUFFIX,
    finish_replacements,
    list_deltas,
    list_snapshots,
)
from monolith.checkpoint.format.manifest import MANIFEST_NAME
from monolith.checkpoint.format.write_errors import write_error
from monolith.checkpoint.keep.generations import GENERATION_NAME, OWNER_NAME
from monolith.checkpoint.keep.generations import claim_generation as claim_generation
from monolith.closing import Closing
from monolith.errors import CorruptFileError, ModelDirInUseError

DAMAGED_SUFFIX = ".damaged"
_STATE_NAMES = (GENERATION_NAME, "checkpoint", "monolith_checkpoint", "restore_ckpt", "clear_nn")


def clean_leftovers(model_dir: str | os.PathLike[str]) -> list[Path]:
    """Remove what a crash left, and return the removed paths; the caller must own the folder.

    This removes temporary files and folders, snapshots and deltas without a manifest, deltas without their snapshot,
    and files fetched from another model's store for a restore. If a snapshot was being replaced, the new one stays if
    it is complete, else the old one. The same is done for dense weights that are saved alone.
    """
    folder = Path(model_dir)
    fetched = [path for path in [folder / FETCHED_FOLDER] if path.is_dir()]
    for path in fetched:
        shutil.rmtree(path)
    return fetched + _clean_one(folder) + _clean_one(folder / DENSE_ONLY_FOLDER)


def _clean_one(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    removed = finish_replacements(folder) + finish_exchanges(folder)
    temporary = [path for path in folder.glob(f"model.ckpt-*{TEMPORARY_SUFFIX}") if path.is_dir()]
    both = [*list_snapshots(folder), *list_deltas(folder)]
    headless = [path for path in both if not (path / MANIFEST_NAME).exists()]
    for path in temporary + headless:
        shutil.rmtree(path)
    orphans = remove_orphans(folder)
    files = [path for name in _STATE_NAMES if (path := folder / f"{name}{TEMPORARY_SUFFIX}").is_file()]
    for path in files:
        path.unlink()
    return removed + temporary + headless + orphans + files


def set_aside_newer(model_dir: str | os.PathLike[str], snapshot: Path | None) -> list[Path]:
    """Rename snapshots newer than the one in use, which were found damaged, to `<name>.damaged`; returns the new names.

    They would count as newest when old ones are removed. If none is in use at all, that is a CorruptFileError: starting
    over must be somebody's decision.
    """
    paths = list_snapshots(model_dir)
    if paths and snapshot is None:
        raise CorruptFileError(
            f"none of the {len(paths)} snapshots in {model_dir} can be used (the warnings say why); move them away to "
            "start over"
        )
    return rename_damaged(paths[paths.index(snapshot) + 1 :] if snapshot is not None else [])


def rename_damaged(paths: Iterable[Path]) -> list[Path]:
    """Rename folders to `<name>.damaged`, in place of earlier ones; returns the new names."""
    aside = []
    for path in paths:
        name = path.with_name(f"{path.name}{DAMAGED_SUFFIX}")
        shutil.rmtree(name, ignore_errors=True)
        aside.append(path.rename(name))
    return aside


class ModelDirOwner(Closing):
    """The right to train in a folder; one process at a time has it, and loses it when it ends, however it ends."""

    def __init__(self, model_dir: str | os.PathLike[str]) -> None:
        """Make the folder if need be, and take it or raise a ModelDirInUseError that names the owner."""
        folder = Path(model_dir)
        self._descriptor = -1
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file; name a folder as model_dir")
        try:
            make_folder(folder)
            self._descriptor = os.open(folder / OWNER_NAME, os.O_RDWR | os.O_CREAT, 0o644)
            self._take(folder)
        except OSError as error:
            self.close()
            raise write_error(f"{folder} cannot be trained in", error) from error
        except ModelDirInUseError:
            self.close()
            raise

    def _take(self, folder: Path) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(self._descriptor, 4096).decode(errors="replace").strip() or "unknown"
            raise ModelDirInUseError(
                f"{folder} is being trained in by another process ({owner}); stop it or use another model_dir"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        sync_folder(folder)

    def close(self) -> None:
        """Let others train in the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
