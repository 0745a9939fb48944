"""ProfilerHook: profiles a few steps now and then."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from monolith.hooks import Hook, RunContext, StepValues
from monolith.observe.profiling import Trace

WINDOW_STEPS = 10
"""Steps of a profile whose end is not given."""

FIRST_AFTER_STEPS = 500
"""Steps before a profile that has no given start: by then everything is warm."""

_log = logging.getLogger(__name__)


class Recording(Protocol):
    """One profile, from `start` to `stop`."""

    def start(self) -> None:
        """Begin to record."""
        ...

    def stop(self, name: str) -> Path | None:
        """End recording; returns the file if there is one."""
        ...


class ProfilerHook(Hook):
    """Profiles steps [begin, end), and again as many every `save_steps` steps or `save_secs` seconds, if given.

    Each profile is one file in `logdir`, which Perfetto and TensorBoard's profiler plugin show; `traces` lists them.
    Profiled steps are slower than others.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        init_step_range: tuple[int | None, int | None] = (None, None),
        save_steps: int | None = None,
        save_secs: float | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the steps of the first profile; `options` are those of `torch.profiler.profile`."""
        begin, end = init_step_range
        if begin is not None and end is None:
            end = begin + WINDOW_STEPS
        if begin is None and end is not None:
            raise ValueError(f"ProfilerHook: an end, {end}, without a begin means nothing; give both")
        if begin is not None and end is not None and end <= begin:
            raise ValueError(f"ProfilerHook: the end must be after the begin, got steps [{begin}, {end})")
        self._window = WINDOW_STEPS if begin is None or end is None else end - begin
        if save_steps is not None and save_secs is not None:
            raise ValueError(f"ProfilerHook: give save_steps or save_secs, not both; got {save_steps} and {save_secs}")
        if save_steps is not None and save_steps <= self._window:
            raise ValueError(
                f"ProfilerHook: save_steps, {save_steps}, must be greater than the {self._window} steps of a profile"
            )
        self._logdir = Path(logdir)
        self._begin = begin
        self._save_steps = save_steps
        self._save_secs = save_secs
        self._options = options
        self._clock = clock
        self._next: int | None = None
        self._last_begin: tuple[int, float] = (0, 0.0)
        self._trace: Recording | None = None
        self.traces: list[Path] = []

    def after_create_session(self, context: RunContext) -> None:
        """Find the next profile; a run that continues from a snapshot may be past some of them."""
        step = context.global_step
        begin = step + FIRST_AFTER_STEPS if self._begin is None else self._begin
        if begin < step and self._save_steps is not None:
            begin += -(-(step - begin) // self._save_steps) * self._save_steps
        self._next = begin if begin >= step else None
        self._last_begin = (step, self._clock())

    def before_run(self, context: RunContext) -> None:
        """Begin a profile if it is time to."""
        if self._trace is None and self._is_due(context.global_step):
            self._next = None
            self._last_begin = (context.global_step, self._clock())
            self._trace = self.recording()
            self._trace.start()

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """End a profile that has its steps."""
        if self._trace is not None and context.global_step - self._last_begin[0] >= self._window:
            self._stop(context.global_step)
            if self._save_steps is not None:
                self._next = self._last_begin[0] + self._save_steps

    def end(self, context: RunContext) -> None:
        """End a profile that the run did not let finish."""
        if self._trace is not None:
            self._stop(context.global_step)

    def recording(self) -> Recording:
        """Return a new profile."""
        return Trace(self._logdir, self._options)

    def _is_due(self, step: int) -> bool:
        if self._next is not None:
            return step >= self._next
        return self._save_secs is not None and self._clock() - self._last_begin[1] >= self._save_secs

    def _stop(self, step: int) -> None:
        trace, self._trace = self._trace, None
        assert trace is not None
        path = trace.stop(f"steps_{self._last_begin[0]}_{step}")
        if path is not None:
            self.traces.append(path)


class NVProfilerHook(ProfilerHook):
    """Lets NVIDIA's profilers (`nsys profile --capture-range=cudaProfilerApi`) see steps [begin, end) alone.

    Without a GPU there is nothing for them to see, and the steps are profiled by torch, as `ProfilerHook` does.
    """

    def recording(self) -> Recording:
        """Return a new profile."""
        if torch.cuda.is_available():
            return _CudaRange()
        _log.warning("there is no GPU for NVIDIA's profilers: writing a trace of torch's to %s instead", self._logdir)
        return super().recording()


class _CudaRange:
    """What the CUDA profiler, if the process runs under one, is to record."""

    def start(self) -> None:
        torch.cuda.synchronize()
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]

    def stop(self, name: str) -> None:
        torch.cuda.synchronize()  # kernels of the last step belong to it
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


def step_range(text: str) -> tuple[int, int]:
    """Return the steps that "begin,end" names; anything else is a ValueError.

    >>> step_range("100,110")
    (100, 110)
    """
    try:
        begin, end = (int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f'profile_with_nvprof_from_to must be "begin,end" such as "100,110", got {text!r}') from None
    if not 0 <= begin < end:
        raise ValueError(f"profile_with_nvprof_from_to: the end must be after the begin, got {text!r}")
    return begin, end
