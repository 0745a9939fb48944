"""Generations: which run a folder belongs to now. One that was taken over commits nothing any more."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monolith.checkpoint.format.durable_files import write_durably
from monolith.errors import CorruptFileError, FencedError

GENERATION_NAME = "generation"
OWNER_NAME = "owner.lock"
_MAX_NUMBER_BYTES = 64


def claim_generation(model_dir: str | os.PathLike[str], at_least: int) -> int:
    """Return a generation that no run in this folder had before, and never will again.

    It is on the disk when this returns, so that servers can tell apart two runs that restore the same snapshot. Runs of
    earlier generations commit nothing from here on.
    """
    folder = Path(model_dir)
    with _lock(folder):
        last = current_generation(folder)
        claimed = at_least if last is None else max(at_least, last + 1)
        write_durably(folder / GENERATION_NAME, f"{claimed}\n".encode())
    return claimed


def current_generation(model_dir: Path) -> int | None:
    """Return the generation of the last run that began in a folder; None if there was none."""
    path = model_dir / GENERATION_NAME
    try:
        with open(path, "rb") as file:
            text = file.read(_MAX_NUMBER_BYTES)
    except FileNotFoundError:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise CorruptFileError(f"{path} must hold a number: {error}; write one above all that were used") from error


@contextmanager
def commit_by(generation: int | None, target: Path, model_dir: Path | None = None) -> Iterator[None]:
    """Give `target` its name inside this block: nobody takes its folder over meanwhile.

    Raises a FencedError that names the owner if somebody has done so before; None asks no questions. `model_dir` is the
    folder that runs take over, where that is another than the one `target` lies in.
    """
    folder = target.parent if model_dir is None else model_dir
    with _lock(folder):
        current = None if generation is None else current_generation(folder)
        if current is not None and generation is not None and current > generation:
            raise FencedError(
                f"{target} is not written: {folder} was taken over by generation {current} (owner: "
                f"{_owner(folder)}), this process is of generation {generation}; stop it, and start it again to go on "
                "from what the other has written"
            )
        yield


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Be the only one in a folder to claim or commit; for moments."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Closing would not do: a process that another thread forks at this moment has the descriptor too.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _owner(folder: Path) -> str:
    try:
        with open(folder / OWNER_NAME, "rb") as file:
            return file.read(4096).decode(errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"
