"""FilesServiceDiscovery: a folder that every process of a job sees, with one small file per process."""

import fcntl
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from monolith.cluster.discovery.member import checked
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.discovery.this_process import ProcessMark

_log = logging.getLogger(__name__)
_LOCK = ".lock"
_MAX_BYTES = 4096
_INDEX = re.compile("0|[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class _Entry:
    address: str
    process: ProcessMark


class FilesServiceDiscovery(ServiceDiscovery):
    """Registrations are files `NAME.INDEX` in a folder: on one machine, or on a file system that all machines share.

    A registration goes with the process that made it: `close` takes it back, and one of a process of this host that
    died counts for nothing. About a process of another host nothing is known; its file stays until it is replaced.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._mine: dict[tuple[str, int], str] = {}
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"discovery needs a folder that it can write to, got {str(folder)!r}: {error}") from error

    def register(self, name: str, index: int, addr: str) -> None:
        """Write the file of this process.

        Raises:
            ValueError: another living process of this host is registered under this name and index.
        """
        checked(name, index, addr)
        file, process = self._file(name, index), ProcessMark.here()
        with self._locked():
            holder = _read(file)
            if holder is not None and holder.process != process and not holder.process.is_certainly_dead():
                if holder.process.host == process.host:
                    raise ValueError(
                        f"{name} {index} is taken: process {holder.process.pid} of this host listens at "
                        f"{holder.address} ({file}); stop it, or choose another index"
                    )
                _log.warning("%s %d moves from %s to %s", name, index, holder.address, addr)
            temporary = file.with_name(f".{file.name}-{os.getpid()}")
            temporary.write_text(json.dumps({"address": addr, "process": process.as_json()}), encoding="utf-8")
            os.replace(temporary, file)
        self._mine[name, index] = addr

    def deregister(self, name: str, index: int, addr: str) -> None:
        """Remove the file if it has this address; another address belongs to a process that came later."""
        checked(name, index, addr)
        file = self._file(name, index)
        with self._locked():
            holder = _read(file)
            if holder is not None and holder.address == addr:
                file.unlink()
        self._mine.pop((name, index), None)

    def query(self, name: str) -> dict[int, str]:
        """Return the addresses of a name; those of processes that died on this host are left out."""
        found = {}
        for file in self._folder.iterdir():
            prefix, _, index = file.name.rpartition(".")
            if prefix != name or not _INDEX.fullmatch(index):
                continue
            entry = _read(file)
            if entry is not None and not entry.process.is_certainly_dead():
                found[int(index)] = entry.address
        return dict(sorted(found.items()))

    def close(self) -> None:
        """Take back what this object registered."""
        for (name, index), addr in list(self._mine.items()):
            self.deregister(name, index, addr)

    def _file(self, name: str, index: int) -> Path:
        return self._folder / f"{name}.{index}"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time look who is registered and change it."""
        with open(self._folder / _LOCK, "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _read(file: Path) -> _Entry | None:
    """Return what a file says; None if it is gone. One that says nothing sensible is ignored with a warning."""
    try:
        with open(file, "rb") as stream:
            value = json.loads(stream.read(_MAX_BYTES))
        name, _, index = file.name.rpartition(".")
        return _Entry(checked(name, int(index), value["address"]), ProcessMark.from_json(value["process"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.warning("%s is no registration, ignored: %s", file, error)
        return None
