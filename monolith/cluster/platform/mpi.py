"""The ranks of an MPI job, as mpirun of Open MPI tells them, and what ends all of them at once."""

import logging
import os
import sys
import traceback
from importlib import import_module
from types import TracebackType

_log = logging.getLogger(__name__)
_RANK = "OMPI_COMM_WORLD_RANK"


def is_under_mpi() -> bool:
    """Return whether mpirun started this process."""
    return _RANK in os.environ


def get_mpi_rank() -> int:
    """Return the number of this process in the job; 0 with a warning outside one."""
    return _number(_RANK, 0)


def get_mpi_local_rank() -> int:
    """Return the number of this process on its host; 0 with a warning outside a job."""
    return _number("OMPI_COMM_WORLD_LOCAL_RANK", 0)


def get_mpi_size() -> int:
    """Return the number of processes in the job; 1 with a warning outside one."""
    return _number("OMPI_COMM_WORLD_SIZE", 1)


def get_mpi_local_size() -> int:
    """Return the number of the job's processes on this host; 1 with a warning outside a job."""
    return _number("OMPI_COMM_WORLD_LOCAL_SIZE", 1)


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable)
    if text is None:
        _log.warning("%s is not set, so mpirun did not start this process; it counts as %d", variable, default)
        return default
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{variable} must be a number from 0, got {text!r}")
    return int(text)


def add_mpi_exception_hook() -> None:
    """Let an uncaught exception end all ranks: the others would wait for this one forever. Outside MPI, do nothing."""
    if is_under_mpi():
        sys.excepthook = _end_all_ranks


def _end_all_ranks(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the exception, then abort the job; return never.

    Without mpi4py the process leaves with status 1. mpirun ends the other ranks then.
    """
    try:
        sys.stderr.write(f"uncaught exception in MPI rank {os.environ.get(_RANK)}, ending all ranks:\n")
        traceback.print_exception(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        import_module("mpi4py.MPI").COMM_WORLD.Abort(1)
    finally:
        # Threads of the process must not keep it, and so the job, alive.
        os._exit(1)
