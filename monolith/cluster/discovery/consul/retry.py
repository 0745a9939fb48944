"""The retry rule of discovery."""

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_RETRY_MAX_BACKOFF_SECS = 5.0
_MAX_ATTEMPTS = 5
_log = logging.getLogger(__name__)


def retry_with_socket_error(func: Callable[[], Result]) -> Result:
    """Return what `func` returns; after a socket error call it again, five times in all, then let the error out.

    Between two calls there is a random pause of up to five seconds: processes that failed together do not return
    together.

    >>> retry_with_socket_error(lambda: 3)
    3
    """
    for attempt in range(1, _MAX_ATTEMPTS):
        try:
            return func()
        except OSError as error:
            _log.warning("attempt %d of %d failed: %s", attempt, _MAX_ATTEMPTS, error)
            time.sleep(random.uniform(0, _RETRY_MAX_BACKOFF_SECS))
    return func()
