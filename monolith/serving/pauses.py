"""Two settings of the interpreter that decide how long a request may wait for nothing."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_SECONDS = 0.0005
"""How long one thread may keep the interpreter while another waits. Python's 5 ms is the time of several answers."""


@contextmanager
def short_pauses() -> Iterator[None]:
    """Keep pauses of this process short while the block runs; enter it when everything is loaded.

    A full collection of Python's garbage collector looks at every object. With PyTorch, FastAPI and ONNX Runtime
    imported this takes 100 ms, and all requests wait: it alone decided the slowest of a hundred answers. What exists
    now is there to stay, so later collections do not look at it. A replaced version is still freed: no cycle of
    references holds it.
    """
    before = sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()
