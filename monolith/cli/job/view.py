"""What a job looks like while it runs: a table of its processes on a terminal, their lines elsewhere."""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Grid

from monolith.cli.console import LiveConsole
from monolith.launch.supervisor import RoleProcess

_REFRESH_SECONDS = 0.5


class JobView(LiveConsole):
    """Shows the processes of a job; their logs have everything."""

    def __init__(self, console: Console) -> None:
        """Show on this console."""
        super().__init__(console)
        self._next_refresh = 0.0

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
