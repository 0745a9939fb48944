"""One process of `monolith launch`: python -m monolith.cli.job.role_process COMMAND... Ends with its parent process."""

import logging
import sys
from importlib import import_module

from monolith.cli.console import print_error
from monolith.cli.mistakes import error_words
from monolith.cli.run import status_of
from monolith.launch.parent_watch import end_with_parent

LOST = 1
"""Status of a process that lost others: it may be started again."""


def main() -> None:
    """Run a `monolith` command and exit as it does."""
    end_with_parent()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.exit(status_of(_run))


def _run() -> int:
    try:
        status = import_module("monolith.cli.app").app(args=sys.argv[1:], prog_name="monolith", standalone_mode=False)
    except (ConnectionError, TimeoutError) as error:
        print_error(error_words(error))
        return LOST
    return status if isinstance(status, int) else 0


if __name__ == "__main__":
    main()
