"""A bar that shows how far a command is, with rate and time left where the end is known."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from monolith.hooks import Hook, RunContext, StepValues


class ProgressHook(Hook):
    """Shows on a terminal how much is done; a file or a pipe gets nothing."""

    def __init__(self, what: str, console: Console) -> None:
        """Take what is being done, such as "evaluating"."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[events]:,} events"),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task(what, total=None, events=0, rate=0.0)
        self._num_events = 0

    def after_create_session(self, context: RunContext) -> None:
        """Begin to show."""
        self._progress.start()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Show what is done."""
        self._num_events += values.num_events
        share = context.read_share()
        seconds = self._progress.tasks[0].elapsed or 0.0
        self._progress.update(
            self._task,
            total=None if share is None else 1.0,
            completed=share or 0.0,
            events=self._num_events,
            rate=self._num_events / max(seconds, 1e-9),
        )

    def end(self, context: RunContext) -> None:
        """Leave the terminal as it was."""
        self._progress.stop()
