"""SIGUSR1 shows what every thread is doing; `kill -USR1 PID` on a run that seems to hang."""

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def print_stack_trace(sig: int, frame: FrameType | None) -> None:
    """Print the stack of the thread that took the signal, and of all others, to standard error."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    for ident, current in sys._current_frames().items():
        shown = frame if ident == main and frame is not None else current
        print(f"--- thread {names.get(ident, '?')} ({ident})", file=sys.stderr)  # noqa: T201 - that is the point
        print("".join(traceback.format_stack(shown)), end="", file=sys.stderr)  # noqa: T201
    sys.stderr.flush()


def add_siguser1_handler() -> None:
    """Let SIGUSR1 print all stacks, after whatever handled it so far; from the main thread only.

    Calling it again adds another link to the chain, as the specification has it.
    """
    before = signal.getsignal(signal.SIGUSR1)

    def handle(sig: int, frame: FrameType | None) -> None:
        if callable(before):
            before(sig, frame)
        if not getattr(before, "prints_stacks", False):
            print_stack_trace(sig, frame)

    handle.prints_stacks = True  # type: ignore[attr-defined]
    signal.signal(signal.SIGUSR1, handle)


@contextmanager
def stack_traces_on_signal() -> Iterator[None]:
    """Let SIGUSR1 print all stacks meanwhile; where handlers cannot be set, outside the main thread, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGUSR1)
    add_siguser1_handler()
    try:
        yield
    finally:
        # None stands for a handler that was not set from Python, and cannot be given back from here.
        if before is not None:
            signal.signal(signal.SIGUSR1, before)
