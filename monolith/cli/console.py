"""How the command writes: tables and messages to stdout, errors to stderr, in red on a terminal."""

from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live

console = Console()


def print_error(message: str) -> None:
    """Print an error on stderr."""
    # soft_wrap: one line stays one line, however narrow the terminal; a script may read it.
    Console(stderr=True).print(f"monolith: {message}", style="red", soft_wrap=True, markup=False, highlight=False)


def print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning on stderr as a line of ours; takes what `warnings.showwarning` takes."""
    Console(stderr=True).print(
        f"monolith: warning: {message}", style="yellow", soft_wrap=True, markup=False, highlight=False
    )


class LiveConsole:
    """A picture that changes in place on a terminal, and lines that stay; elsewhere there are only lines."""

    def __init__(self, console: Console) -> None:
        """Show on this console."""
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def say(self, line: str) -> None:
        """Print a line that stays."""
        # As it is: rich would fold a long line at 80 columns, and a script may read it.
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

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
