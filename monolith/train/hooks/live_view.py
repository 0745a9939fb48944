"""What a run looks like while it goes: a live table and a bar on a terminal, a line now and then elsewhere."""

import math
import os
import time
from collections import deque
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid

from monolith.hooks import Hook, RunContext, StepValues
from monolith.train.hooks.table_sizes import table_sizes

REFRESH_SECONDS = 0.5
"""Often enough to look alive; metrics take milliseconds to compute."""

MAX_TABLES_SHOWN = 6
"""A model may have hundreds."""

RATE_SECONDS = 10.0
"""The event rate covers this many seconds."""


class LiveView(Hook):
    """Shows step, events per second, loss, AUC of the recent past, and rows and memory per table.

    Where the end of the run is known, by `max_steps` or by the size of the data, it shows the time left; on a terminal
    with a bar. It says where the run keeps its model, and how it ended if that is not at the end of the data.
    """

    def __init__(
        self,
        *,
        every_steps: int = 100,
        folder: str | os.PathLike[str] | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Show on the console; `every_steps` is for consoles that are no terminal, 0 shows nothing there.

        `folder` is where the run keeps its model.
        """
        self._every_steps = every_steps
        self._folder = folder
        self._console = console or Console()
        self._clock = clock
        self._live: Live | None = None
        self._next_refresh = 0.0
        self._events: deque[tuple[float, int]] = deque()
        self._num_events = 0
        self._loss = float("nan")
        self._printed_step = 0
        self._began = (0.0, 0.0)  # when, and how much of the run was done then

    def after_create_session(self, context: RunContext) -> None:
        """Begin to show."""
        self._events.append((self._clock(), 0))
        self._began = self._clock(), context.read_share() or 0.0
        if self._folder is not None and self._shows:
            start = f"continues from step {context.global_step:,}" if context.global_step else "new"
            self._print(f"model kept in {os.fspath(self._folder)} ({start})")
        if self._console.is_terminal:
            self._live = Live(self._view(context), console=self._console, auto_refresh=False)
            self._live.start()
        elif self._every_steps:
            self._print(f"step {context.global_step:,}: {_rows_in_words(context)}")
        self._printed_step = context.global_step

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Show what changed, if it is time to."""
        self._num_events += values.num_events
        self._loss = values.loss
        now = self._clock()
        if self._live is not None and now >= self._next_refresh:
            self._next_refresh = now + REFRESH_SECONDS
            self._live.update(self._view(context), refresh=True)
        elif self._live is None and self._every_steps and context.global_step % self._every_steps == 0:
            self._print(self._line(context))
            self._printed_step = context.global_step

    def end(self, context: RunContext) -> None:
        """Show the last state and leave the terminal as it was."""
        if self._live is not None:
            self._live.update(self._view(context), refresh=True)
            self._live.stop()
        elif self._every_steps and self._printed_step != context.global_step:
            self._print(self._line(context))
        if context.error is None and self._shows and (context.stop_requested or not context.num_steps):
            self._print(context.ending)

    @property
    def _shows(self) -> bool:
        return self._console.is_terminal or self._every_steps > 0

    def _rate(self) -> float:
        now = self._clock()
        self._events.append((now, self._num_events))
        while len(self._events) > 2 and now - self._events[0][0] > RATE_SECONDS:
            self._events.popleft()
        began, before = self._events[0]
        return (self._num_events - before) / max(now - began, 1e-9)

    def _numbers(self, context: RunContext) -> dict[str, str]:
        # What is not known, such as the AUC of equal labels or a loss before the first step, is not shown.
        measured = {"loss": self._loss, **context.read_metrics()}
        return {
            "step": f"{context.global_step:,}",
            "events/s": f"{self._rate():,.0f}",
            **{name: f"{value:.4f}" for name, value in measured.items() if not math.isnan(value)},
            **({"times rejected": f"{context.times_rejected:,}"} if context.times_rejected else {}),
        }

    def _line(self, context: RunContext) -> str:
        numbers = self._numbers(context)
        words = ", ".join(f"{name} {number}" for name, number in numbers.items() if name != "step")
        share = context.read_share()
        left = "" if share is None else f"; {share:.0%}{self._time_left(share)}"
        return f"step {numbers['step']}: {words}; {_rows_in_words(context)}{left}"

    def _time_left(self, share: float) -> str:
        """Return the time left in words, from how long the part since the start took; nothing before the first step."""
        began, before = self._began
        if share <= before or share >= 1:
            return ""
        seconds = (self._clock() - began) * (1 - share) / (share - before)
        minutes, seconds = divmod(round(seconds), 60)
        return f", {minutes // 60}:{minutes % 60:02}:{seconds:02} left"

    def _view(self, context: RunContext) -> Group:
        share = context.read_share()
        if share is None:
            return Group(self._grid(context))
        bar = Grid.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=1.0, completed=share, width=40), f"{share:.0%}{self._time_left(share)}")
        return Group(self._grid(context), bar)

    def _grid(self, context: RunContext) -> Grid:
        grid = Grid(title="training", show_header=False)
        for name, number in self._numbers(context).items():
            grid.add_row(name, number)
        grid.add_section()
        for name, rows in _tables_in_words(context).items():
            grid.add_row(f"rows of {name}", rows)
        return grid

    def _print(self, line: str) -> None:
        # As it is: rich would fold a long line at 80 columns, and a log is read by programs too.
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)


def _rows_in_words(context: RunContext) -> str:
    return ", ".join(f"{name} {rows}" for name, rows in _tables_in_words(context).items())


def _tables_in_words(context: RunContext) -> dict[str, str]:
    """Return rows and memory by table: all of a few, else the largest and the sum of the others."""
    sizes = {name: (rows, used or 0) for name, (rows, used) in table_sizes(context.tables).items()}
    named = sizes
    if len(sizes) > MAX_TABLES_SHOWN:
        largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[: MAX_TABLES_SHOWN - 1]
        others = [size for name, size in sizes.items() if name not in largest]
        named = {name: sizes[name] for name in largest}
        named[f"{len(others)} others"] = (sum(rows for rows, _ in others), sum(used for _, used in others))
    # Without memory here the rows are on parameter servers.
    return {name: f"{rows:,} rows {_megabytes(used) if used else ''}".rstrip() for name, (rows, used) in named.items()}


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.1f} MB"
