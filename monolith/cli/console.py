"""How the command writes: tables and messages to stdout, errors to stderr."""

from rich.console import Console

console = Console()


def print_error(error: BaseException) -> None:
    """Print an error as one line on stderr.

    A message of several lines is joined, with notes that were added to it; an error without a message goes by its type.
    """
    message = " ".join(str(error).split()) or type(error).__name__
    message = " ".join([message, *(f"({note})" for note in getattr(error, "__notes__", ()))])
    # soft_wrap: one line stays one line, however narrow the terminal; a script may read it.
    Console(stderr=True).print(f"monolith: {message}", soft_wrap=True, markup=False, highlight=False)
