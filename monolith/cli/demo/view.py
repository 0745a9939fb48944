"""What a demo shows: a live table on a terminal, a line every few seconds elsewhere."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from monolith.cli.console import LiveConsole

LINE_SECONDS = 5.0


class DemoView(LiveConsole):
    """Shows named figures as they change."""

    def __init__(self, console: Console) -> None:
        """Show on this console."""
        super().__init__(console)
        self._next_line = 0.0

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


def training_figures(status: Mapping[str, Any]) -> dict[str, str]:
    """Return what a trainer's status file says, in words."""
    rows = ", ".join(f"{name} {count:,}" for name, count in status.get("rows", {}).items())
    return {
        "step": f"{status.get('step', 0):,}",
        "events/s": f"{status.get('events_per_second', 0):,.0f}",
        "rows": rows,
        "memory": f"{status.get('memory_bytes', 0) / 1e6:,.1f} MB",
    }
