"""Where the `monolith` command starts, and what a user sees when it fails."""

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module

import typer

from monolith.cli.console import print_error, print_warning
from monolith.cli.mistakes import UsageError, error_words, is_user_error, usage_words

STOPPED = 130
"""What shells report for a command that Ctrl-C ended."""

_TRACEBACK = "--traceback"

WAITING = {"GOMP_SPINCOUNT": "5000"}
"""How long threads without work wait awake: about 50 microseconds, as threads of a table server do."""


def main() -> None:
    """Run the command and exit.

    The status is 0, 2 after an error of the user's, 1 after any other error, or 130 after Ctrl-C. An error is a line on
    stderr; `--traceback`, anywhere on the command line, shows where it came from instead.
    """
    _let_idle_threads_sleep()
    with warnings.catch_warnings():
        if _TRACEBACK not in sys.argv:
            warnings.showwarning = print_warning
        sys.exit(_status([one for one in sys.argv[1:] if one != _TRACEBACK]))


def _let_idle_threads_sleep() -> None:
    """Set how long threads without work wait awake, unless the user has; torch is not imported yet.

    OpenMP's own default is milliseconds. Where other programs want the cores, as the other processes of a job do,
    threads that wait awake keep threads with work from a core.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        for name, value in WAITING.items():
            os.environ.setdefault(name, value)


def _status(arguments: list[str]) -> int:
    """Run the command and return its status."""

    def run() -> object:
        # Imported here because that fails too, where the compiled core or torch is missing.
        return import_module("monolith.cli.app").app(args=arguments, prog_name="monolith", standalone_mode=False)

    return status_of(run, arguments)


def status_of(run: Callable[[], object], arguments: Sequence[str] = ()) -> int:
    """Run what calls a command, print its error in words, and return its status."""
    try:
        status = run()
    except typer.Abort:
        return STOPPED
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            print_error(usage_words(error, list(arguments)))
        return 2
    except KeyboardInterrupt:
        if _TRACEBACK in sys.argv:
            raise
        return STOPPED
    except Exception as error:  # noqa: BLE001  every error is a line, not a traceback
        if _TRACEBACK in sys.argv:
            raise
        print_error(error_words(error))
        return 2 if is_user_error(error) else 1
    return status if isinstance(status, int) else 0
