"""LogTail: new lines of a file that another process writes."""

from collections import deque
from pathlib import Path

_KEPT_LINES = 8
_MAX_BYTES = 1 << 20


class LogTail:
    """Reads a file from where it ended when this object was made."""

    def __init__(self, path: Path) -> None:
        """Start behind what is there already."""
        self._path = path
        self._read_bytes = path.stat().st_size if path.exists() else 0
        self._part = b""
        self._kept: deque[str] = deque(maxlen=_KEPT_LINES)

    def new_lines(self) -> list[str]:
        """Return the whole lines that came since the last call; empty ones are left out."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                data = file.read(_MAX_BYTES)
        except FileNotFoundError:
            return []
        self._read_bytes += len(data)
        *whole, self._part = (self._part + data).split(b"\n")
        lines = [line.decode(errors="replace").rstrip() for line in whole if line.strip()]
        self._kept.extend(lines)
        return lines

    @property
    def last_line(self) -> str:
        """The newest line that was read."""
        return self._kept[-1] if self._kept else ""

    def last_lines(self) -> str:
        """Return the newest lines as one."""
        self.new_lines()
        return " | ".join(self._kept) or f"it wrote nothing ({self._path})"
