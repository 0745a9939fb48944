"""How many files, connections among them, this process may have open at a time."""

import logging
import resource
import sys

_log = logging.getLogger(__name__)


def max_open_files() -> int:
    """Return how many files this process may have open now: its soft limit."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def make_room_for_files(count: int, *, reason: str) -> bool:
    """Raise the limit of this process to what the system allows, if it may need `count` files; return whether they fit.

    If they do not, a warning says so; `reason` completes "this process may need 9000 open files, since ...".
    """
    if max_open_files() >= count:
        return True
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS refuses its own hard limit, "unlimited", but takes a number.
    for limit in (hard, count):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            break
        except (OSError, ValueError):
            continue
    if max_open_files() >= count:
        return True
    _log.warning(
        "this process may need %d open files, since %s, and the system allows it %d: connections may fail with 'too "
        "many open files'; allow more, with `ulimit -Hn %d` as root, LimitNOFILE=%d of systemd, or --ulimit nofile=%d "
        "of Docker",
        count, reason, max_open_files(), count, count, count,
    )  # fmt: skip
    return False


def _number(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit
