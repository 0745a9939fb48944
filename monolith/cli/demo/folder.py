"""DemoFolder: where a demo keeps its files, used by one demo at a time."""

import fcntl
import getpass
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Self

MARKER_NAME = "demo.json"
LOCK_NAME = "demo.lock"


def default_folder() -> Path:
    """Return the folder of this user's demo."""
    return Path(tempfile.gettempdir()) / f"monolith-demo-{getpass.getuser()}"


class DemoFolder:
    """The folder of a demo: taken for this process, and empty unless an earlier run is to be resumed."""

    def __init__(self, path: Path | None, resume: bool | None) -> None:
        """Take the folder; `resume` None goes on with a run that was interrupted, and starts over otherwise."""
        self.path = (default_folder() if path is None else path).absolute()
        if self.path.is_dir() and not (self.path / MARKER_NAME).exists():
            if set(os.listdir(self.path)) - {LOCK_NAME}:
                raise ValueError(f"{self.path} has files that are not of a demo; choose an empty folder with --folder")
            if resume:
                raise ValueError(f"there is no demo in {self.path} to resume; leave out --resume to start one")
        elif not self.path.exists() and resume:
            raise ValueError(f"there is no demo in {self.path} to resume; leave out --resume to start one")
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.path.stat().st_uid != os.getuid():
            raise ValueError(f"{self.path} belongs to another user; choose another folder with --folder")
        self._lock = os.open(self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise OSError(
                f"a demo is running in {self.path}; stop it, or choose another folder with --folder"
            ) from error
        self.resumed = self._was_interrupted() if resume is None else resume
        if not self.resumed:
            self._empty()
        self._mark(finished=False)

    def finish(self) -> None:
        """Note that the demo ran to its end."""
        self._mark(finished=True)

    def __enter__(self) -> Self:
        """Return itself; leaving the block lets others use the folder."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let others use the folder."""
        os.close(self._lock)

    def _was_interrupted(self) -> bool:
        try:
            return not json.loads((self.path / MARKER_NAME).read_text())["finished"]
        except (FileNotFoundError, ValueError, KeyError):
            return False

    def _empty(self) -> None:
        # The marker goes last: a folder that is half emptied is still known as a demo's.
        keep = {LOCK_NAME, MARKER_NAME}
        for entry in self.path.iterdir():
            if entry.name in keep:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def _mark(self, *, finished: bool) -> None:
        temporary = self.path / f"{MARKER_NAME}.tmp"
        temporary.write_text(json.dumps({"finished": finished}))
        temporary.replace(self.path / MARKER_NAME)
