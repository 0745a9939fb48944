"""Work that a thread of its own does."""

import threading
from collections.abc import Callable
from concurrent.futures import Future


def in_background(work: Callable[[], object], name: str) -> "Future[object]":
    """Return what becomes of work that a thread of its own does; a process that ends does not wait for it."""
    future: Future[object] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
