"""One process of `monolith launch`: python -m monolith.cli.job.role_process COMMAND... Ends with its parent process.

`--at-once` before the command ends it without any order when the parent is gone.
"""

import logging
import sys
from importlib import import_module

from monolith.cli.run import status_of
from monolith.launch.parent_watch import end_with_parent

_AT_ONCE = "--at-once"


def main() -> None:
    """Run a `monolith` command and exit as it does."""
    at_once = sys.argv[1:2] == [_AT_ONCE]
    arguments = sys.argv[1 + at_once :]
    end_with_parent(at_once=at_once)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    sys.exit(
        status_of(
            lambda: import_module("monolith.cli.app").app(args=arguments, prog_name="monolith", standalone_mode=False)
        )
    )


if __name__ == "__main__":
    main()
