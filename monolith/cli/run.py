"""Where the `monolith` command starts, and what a user sees when it fails."""

import sys
from importlib import import_module

from monolith.cli.console import print_error
from monolith.errors import MonolithError

# What can go wrong without a defect of ours: such an error is one line, not a traceback.
USER_ERRORS = (MonolithError, ValueError, OSError, ImportError)

STOPPED = 130
"""What shells report for a command that Ctrl-C ended."""


def main() -> None:
    """Run the command; exit with 0, with 2 and one line on stderr for an error of the user's, or with 130 by Ctrl-C."""
    try:
        # Imported here because that fails too, where the compiled core or torch is missing.
        import_module("monolith.cli.app").app()
    except USER_ERRORS as error:
        if "--traceback" in sys.argv:
            raise
        print_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        if "--traceback" in sys.argv:
            raise
        sys.exit(STOPPED)
