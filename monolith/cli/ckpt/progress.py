"""How far a command has got, where somebody looks."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from monolith.checkpoint.save.rewrite import OnProgress
from monolith.cli.console import console


@contextmanager
def progress_bar() -> Iterator[OnProgress]:
    """Show a bar on a terminal until the block ends; it is told what is being done, and how much of all is done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    # Into a file or a pipe, a bar that is gone at the end would still leave an empty line.
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=1.0)
        yield lambda what, done: progress.update(task, description=what, completed=done)
