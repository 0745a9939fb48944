"""DemoFolder: where a demo keeps its files, used by one demo at a time."""

import fcntl
import getpass
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

MARKER_NAME = "demo.json"
LOCK_NAME = "demo.lock"

LOCK_SECONDS = 5.0
"""So long a new demo waits for the processes of one that was killed; they end by themselves."""


class TrainerSize(NamedTuple):
    """How many processes train; none of them is a parameter server if one process does it all.

    >>> TrainerSize().flags, TrainerSize(2, 3).flags, TrainerSize(1, 2).words
    ('', ' --num-ps 2 --num-workers 3', '1 parameter server, 2 workers')
    """

    num_ps: int = 0
    num_workers: int = 1

    @property
    def flags(self) -> str:
        """What asks for it on the command line, behind a blank."""
        return f" --num-ps {self.num_ps} --num-workers {self.num_workers}" if self.num_ps else ""

    @property
    def words(self) -> str:
        """What trains."""
        if not self.num_ps:
            return "trainer"
        counts = {"parameter server": self.num_ps, "worker": self.num_workers}
        return ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in counts.items())


def default_folder() -> Path:
    """Return the folder of this user's demo."""
    return Path(tempfile.gettempdir()) / f"monolith-demo-{getpass.getuser()}"


class DemoFolder:
    """The folder of a demo: taken for this process, and empty unless an earlier run is to be resumed."""

    def __init__(self, path: Path | None, resume: bool | None, size: TrainerSize | None = None) -> None:
        """Take the folder; `resume` None goes on with a run that was interrupted, and starts over otherwise.

        A run is resumed by as many processes as it had: each goes on with its part of the stream.
        """
        self._size = size or TrainerSize()
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
        self.lock = _locked(self.path)
        self.resumed = self._was_interrupted() if resume is None else resume
        if self.resumed and (before := self._size_before()) != self._size:
            os.close(self.lock)
            raise ValueError(
                f"the demo in {self.path} began as `monolith demo{before.flags}`, and each process goes on with its "
                f"part of the stream: resume it as `monolith demo --resume{before.flags}`, or add --start-over"
            )
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
        os.close(self.lock)

    def _was_interrupted(self) -> bool:
        return self._marker().get("finished") is False

    def _size_before(self) -> TrainerSize:
        marker = self._marker()
        return TrainerSize(marker.get("num_ps", 0), marker.get("num_workers", 1))

    def _marker(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.path / MARKER_NAME).read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return {}

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
        temporary.write_text(json.dumps({"finished": finished, **self._size._asdict()}))
        temporary.replace(self.path / MARKER_NAME)


def _locked(path: Path) -> int:
    """Return a descriptor whose lock says that a demo uses the folder; its processes hold it too."""
    lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                os.close(lock)
                raise OSError(
                    f"a demo is running in {path}; stop it, or choose another folder with --folder"
                ) from error
            time.sleep(0.1)
        else:
            return lock
