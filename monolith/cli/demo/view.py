"""What a demo shows: a live table on a terminal, a line every few seconds elsewhere."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid

LINE_SECONDS = 5.0


class DemoView:
    """Shows named figures as they change."""

    def __init__(self, console: Console) -> None:
        """Show on this console."""
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._next_line = 0.0

    def say(self, line: str) -> None:
        """Print a line that stays."""
        # As it is: rich would fold a long line at 80 columns, and a script may read it.
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def show(self, title: str, figures: Mapping[str, str], sentence: str = "") -> None:
        """Show the figures of this moment, and a sentence about what is happening."""
        if self._live is not None:
            grid = Grid(title=title, caption=sentence, show_header=False, min_width=50)
            for name, value in figures.items():
                grid.add_row(name, value)
            self._live.update(grid, refresh=True)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            words = "; ".join(f"{name} {value}" for name, value in figures.items())
            self.say(f"{title}: {words}{'. ' if sentence else ''}{sentence}")

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


def training_figures(status: Mapping[str, Any]) -> dict[str, str]:
    """Return what a trainer's status file says, in words."""
    rows = ", ".join(f"{name} {count:,}" for name, count in status.get("rows", {}).items())
    return {
        "step": f"{status.get('step', 0):,}",
        "events/s": f"{status.get('events_per_second', 0):,.0f}",
        "rows": rows,
        "memory": f"{status.get('memory_bytes', 0) / 1e6:,.1f} MB",
    }
