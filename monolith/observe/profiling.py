"""Profiles: what every operation cost, as a trace that Perfetto, chrome://tracing and TensorBoard's plugin show."""

import functools
import os
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

from torch import profiler

TRACE_SUFFIX = ".pt.trace.json"
"""What TensorBoard's profiler plugin looks for."""

Args = ParamSpec("Args")
Result = TypeVar("Result")


class Trace:
    """One profile, from `start` to `stop`."""

    def __init__(self, folder: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        """Take the folder of the trace; `options` are those of `torch.profiler.profile`, such as `record_shapes`."""
        self._folder = Path(folder)
        self._profile = profiler.profile(**(options or {}))

    def start(self) -> None:
        """Begin to record."""
        self._profile.start()

    def stop(self, name: str) -> Path:
        """End recording, write the trace and return its file; `name` becomes part of the file's."""
        self._profile.stop()
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{socket.gethostname()}_{os.getpid()}.{name}{TRACE_SUFFIX}"
        self._profile.export_chrome_trace(str(path))
        return path


@overload
def profile_it(fn: Callable[Args, Result]) -> Callable[Args, Result]: ...


@overload
def profile_it(
    fn: None = None, *, log_dir: str | os.PathLike[str]
) -> Callable[[Callable[Args, Result]], Callable[Args, Result]]: ...


def profile_it(fn: Any = None, *, log_dir: str | os.PathLike[str] | None = None) -> Any:
    """Let each call of a function be profiled; the trace is there when the call returns, or raises.

    `@profile_it` writes below the folder for temporary files, in `tests_profile`; `@profile_it(log_dir=...)` elsewhere.
    The original's never returned: it used a module that it did not import.
    """
    if fn is None:
        return functools.partial(profile_it, log_dir=log_dir)

    @functools.wraps(fn)
    def profiled(*args: Any, **kwargs: Any) -> Any:
        trace = Trace(Path(tempfile.gettempdir()) / "tests_profile" if log_dir is None else log_dir)
        trace.start()
        try:
            return fn(*args, **kwargs)
        finally:
            trace.stop(f"{fn.__name__}_{time.time_ns()}")

    return profiled
