"""What a job looks like while it runs: a table of its processes on a terminal, their lines elsewhere."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid

from monolith.launch.supervisor import RoleProcess

_REFRESH_SECONDS = 0.5


class JobView:
    """Shows the processes of a job; their logs have everything."""

    def __init__(self, console: Console) -> None:
        """Show on this console."""
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._next_refresh = 0.0

    def say(self, line: str) -> None:
        """Print a line that stays."""
        # As it is: rich would fold a long line at 80 columns, and a script may read it.
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def show(self, processes: Sequence[RoleProcess]) -> None:
        """Show every process with its last line; without a terminal, print the new lines of all."""
        for one in processes:
            for line in one.tail.new_lines():
                if self._live is None:
                    self.say(f"[{one.role.name}] {line}")
        if self._live is not None and time.monotonic() >= self._next_refresh:
            self._next_refresh = time.monotonic() + _REFRESH_SECONDS
            grid = Grid("process", "pid", "state", "last line")
            for one in processes:
                pid = "" if one.process is None else str(one.process.pid)
                grid.add_row(one.role.name, pid, one.words, one.tail.last_line)
            self._live.update(grid, refresh=True)

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
