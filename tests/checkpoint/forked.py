"""Something done in a process of its own, whose limits and user may change."""

import os
import traceback
from collections.abc import Callable

from monolith._core import native


def in_child(work: Callable[[], object]) -> str:
    """Do it in a forked process; returns what it raised, as text, or nothing."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        native.set_num_threads(1)  # threads of the parent are not there after a fork
        try:
            work()
            told = ""
        except BaseException:  # noqa: BLE001  the parent looks at it
            told = traceback.format_exc()
        os.write(writing, told.encode()[-60_000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told_by:
        text = told_by.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the process ended with {status}"
    return text
