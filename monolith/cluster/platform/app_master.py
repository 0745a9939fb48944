"""What a job tells the application master that started it, when it ends."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

PRIMUS_VARIABLES = ("PRIMUS_AM_RPC_HOST", "PRIMUS_AM_RPC_PORT")
"""Primus sets both."""


@contextmanager
def app_master_learns_the_end() -> Iterator[Callable[[], None]]:
    """Tell Primus that the application is done when the block ends; if it raises, to end all of it with the error.

    The block gets a function to call if the application is not done: it has stopped, to be started again otherwise.
    Then Primus is told nothing. Outside Primus this does nothing. A request that Primus does not take is logged.
    """
    goes_on = False

    def say_nothing() -> None:
        nonlocal goes_on
        goes_on = True

    if not all(os.environ.get(name) for name in PRIMUS_VARIABLES):
        yield say_nothing
        return
    primus = import_module("monolith.cluster.platform.primus")  # needs grpc; before the work, to say so at once
    try:
        yield say_nothing
    except BaseException as error:
        primus.maybe_kill_application(f"{type(error).__name__}: {error}")
        raise
    if not goes_on:
        primus.maybe_finish_application()
