"""A child that ends with its parent, however the parent ends."""

import os
import signal
import sys
import threading

GRACE_SECONDS = 15.0
"""After this long without a parent, a child that does not end by itself is ended."""


def end_with_parent(*, at_once: bool = False) -> None:
    """Watch standard input, a pipe that the parent holds open; when it closes, end this process as SIGTERM does.

    With `at_once` it ends like a process that is killed: the chief of a job does not end the job then.
    A pipe and not Linux's parent-death signal: that one is bound to the thread that started the child.
    """
    watched = (sys.stdin.fileno(), at_once)
    threading.Thread(target=_watch, args=watched, name="parent watch", daemon=True).start()


def _watch(descriptor: int, at_once: bool) -> None:
    while os.read(descriptor, 4096):
        pass
    if at_once:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(GRACE_SECONDS)
    os._exit(1)
