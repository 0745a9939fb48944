"""What a job tells the application master that started it, when it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

PRIMUS_VARIABLES = ("PRIMUS_AM_RPC_HOST", "PRIMUS_AM_RPC_PORT")
"""Primus sets both."""


@contextmanager
def app_master_learns_the_end() -> Iterator[None]:
    """Tell Primus that the application is done when the block ends; if it raises, to end all of it with the error.

    Outside Primus this does nothing. A request that Primus does not take is logged.
    """
    if not all(os.environ.get(name) for name in PRIMUS_VARIABLES):
        yield
        return
    primus = import_module("monolith.cluster.platform.primus")  # needs grpc; before the work, to say so at once
    try:
        yield
    except BaseException as error:
        primus.maybe_kill_application(f"{type(error).__name__}: {error}")
        raise
    primus.maybe_finish_application()
