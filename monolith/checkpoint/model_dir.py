"""The folder of a model: its snapshots, the newest usable one, what a crash left, and who trains in it."""

import fcntl
import json
import os
import shutil
import socket
import warnings
from pathlib import Path
from types import TracebackType
from typing import Self

from monolith.checkpoint.durable_files import sync_folder, write_durably
from monolith.checkpoint.layout import TEMPORARY_SUFFIX, list_deltas, list_snapshots
from monolith.checkpoint.manifest import MANIFEST_NAME, check_files, read_manifest
from monolith.errors import CorruptFileError, ModelDirInUseError

OWNER_NAME = "owner.lock"
GENERATION_NAME = "generation"
DAMAGED_SUFFIX = ".damaged"


def latest_snapshot(model_dir: str | os.PathLike[str]) -> Path | None:
    """Return the newest snapshot whose manifest and files are whole; None if there is none.

    Those that are not are passed over with a warning that says why.
    """
    for path in reversed(list_snapshots(model_dir)):
        try:
            check_files(path, read_manifest(path))
        except (CorruptFileError, FileNotFoundError) as error:
            warnings.warn(f"snapshot {path} is not used: {error}", stacklevel=2)
        else:
            return path
    return None


def clean_leftovers(model_dir: str | os.PathLike[str]) -> list[Path]:
    """Remove what a crash left: temporary folders, snapshots and deltas without a manifest; returns what went."""
    folder = Path(model_dir)
    temporary = [path for path in folder.glob(f"model.ckpt-*{TEMPORARY_SUFFIX}") if path.is_dir()]
    named = [*list_snapshots(folder), *list_deltas(folder)]
    headless = [path for path in named if not (path / MANIFEST_NAME).exists()]
    for path in temporary + headless:
        shutil.rmtree(path)
    return temporary + headless


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
    newer = paths[paths.index(snapshot) + 1 :] if snapshot is not None else []
    aside = []
    for path in newer:
        name = path.with_name(f"{path.name}{DAMAGED_SUFFIX}")
        shutil.rmtree(name, ignore_errors=True)
        aside.append(path.rename(name))
    return aside


def claim_generation(model_dir: str | os.PathLike[str], at_least: int) -> int:
    """Return a generation that no run in this folder had before, and never will again.

    It is on the disk when this returns: two runs that restore the same snapshot must not be taken for one by those who
    follow them.
    """
    path = Path(model_dir) / GENERATION_NAME
    last = at_least - 1
    if path.exists():
        try:
            last = max(last, int(path.read_text()))
        except ValueError as error:
            raise CorruptFileError(f"{path} must hold a number: {error}; write one above all that were used") from error
    write_durably(path, f"{last + 1}\n".encode())
    return last + 1


class ModelDirOwner:
    """The right to train in a folder; one process at a time has it, and loses it when it ends, however it ends."""

    def __init__(self, model_dir: str | os.PathLike[str]) -> None:
        """Make the folder if need be, and take it or raise a ModelDirInUseError that names the owner."""
        folder = Path(model_dir)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / OWNER_NAME
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(self._descriptor, 4096).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
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

    def __enter__(self) -> Self:
        """Return itself; leaving the block gives the folder back."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the folder back."""
        self.close()
