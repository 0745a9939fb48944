"""How the command writes: tables and messages to stdout, errors to stderr, in red on a terminal."""

from typing import TextIO

from rich.console import Console

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
