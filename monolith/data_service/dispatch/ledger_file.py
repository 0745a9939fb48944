"""LedgerFile: a dispatcher's memory on disk, written in one piece after every change."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from monolith._core import native
from monolith.data.event_log.folder import write_in_one_piece
from monolith.errors import CorruptFileError, MonolithError

FORMAT = "monolith data service"
VERSION = 3
FILE = "ledger.json"
LOCK_FILE = "dispatcher.lock"


class DispatcherInUseError(MonolithError, RuntimeError):
    """Another dispatcher works with the same folder; the message names its process."""


class LedgerFile:
    """One JSON object in a folder, which this process alone may change until it closes it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Make the folder if need be, and lock it."""
        self.path = Path(folder) / FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.path.with_name(LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._lock, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._lock)
            raise DispatcherInUseError(
                f"the dispatcher of process {owner} works with {folder}; stop that one or choose another folder"
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def read(self) -> dict[str, Any] | None:
        """Return what was written last; None if nothing was. CorruptFileError if it is damaged."""
        return _read(self.path)

    def write(self, content: dict[str, Any]) -> None:
        """Replace what was written before; it is on disk when this returns."""
        value = {"format": FORMAT, "version": VERSION, "crc32c": native.crc32c(_encoded(content)), "content": content}
        write_in_one_piece(self.path, _encoded(value))

    def close(self) -> None:
        """Let another process have the folder."""
        os.close(self._lock)


def num_splits_in(folder: str | os.PathLike[str]) -> int | None:
    """Return how many splits the dispatcher of a folder has made; None if there was none."""
    content = _read(Path(folder) / FILE)
    return None if content is None else int(content["ledger"]["num_splits"])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise _corrupt(path, error) from error
    try:
        value = json.loads(text)
        if value["format"] != FORMAT or value["version"] != VERSION:
            raise ValueError(f"format {value['format']!r}, version {value['version']!r}")
        content: dict[str, Any] = value["content"]
        if value["crc32c"] != native.crc32c(_encoded(content)):
            raise ValueError("its checksum is wrong")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _corrupt(path, error) from error
    return content


def _corrupt(path: Path, error: Exception) -> CorruptFileError:
    return CorruptFileError(
        f"{path}: not the state of a dispatcher of this version ({error}); choose another folder to begin anew"
    )


def _encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
