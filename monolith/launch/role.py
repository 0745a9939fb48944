"""One process of a job: python -m monolith.launch.role ROLE --config FILE.json. Ends with its parent process."""

import argparse
import logging
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType

from monolith.errors import MonolithError
from monolith.launch.parent_watch import end_with_parent


def main(arguments: list[str] | None = None) -> int:
    """Run the role until SIGTERM or Ctrl-C; return its status, or 2 after one line on stderr."""
    parser = argparse.ArgumentParser(prog="monolith.launch.role", description=__doc__)
    parser.add_argument("role", help="generator, trainer, job or server")
    parser.add_argument("--config", type=Path, required=True, help="JSON file with the fields of the role")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("monolith").setLevel(logging.INFO)
    # Until the role has handlers of its own: files that are being written are cleaned up on the way out.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if options.with_parent:
            end_with_parent()
        # Imported once the parent is watched: that takes seconds.
        roles = import_module("monolith.launch.roles")
        return roles.role_from_json(options.role, options.config.read_text()).run() or 0
    except KeyboardInterrupt:
        return 0
    except (MonolithError, ValueError, OSError, ImportError) as error:
        logging.getLogger(options.role).error("%s", " ".join(str(error).split()) or type(error).__name__)
        return 2


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
