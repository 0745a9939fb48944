"""Hooks: what a user wants to see of a run, at five moments of it.

Hooks observe, and may ask for a stop or a snapshot. What a run does (push, sync, snapshot) are lines of its loop, not
hooks. A hook that raises ends the run with that error; training writes a snapshot of the steps taken before.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch import nn


@dataclass(frozen=True, kw_only=True, slots=True)
class StepValues:
    """What one step did."""

    step: int
    """Number of the step, from 0."""

    loss: float
    """Of the batch, before it was trained on."""

    num_events: int
    """Events in the batch."""

    partition: str
    """The stream partition the batch is from."""

    first: int
    """Offset of the batch's first event in its partition."""

    last: int
    """Offset after the batch's last event."""

    spec: Any = None
    """What the model said of the batch: a `monolith.EstimatorSpec`. Keep numbers of it, not tensors: those hold on to
    all that they were computed from."""

    summaries: Sequence[Any] = ()
    """What `nas_data` and `feature_insight_data` made in the model's `model_fn`."""

    batch: Any = None
    """The batch itself: a `monolith.data.Batch`."""


@dataclass(kw_only=True, slots=True)
class RunContext:
    """What a hook sees of a run."""

    model: nn.Module
    """The model as it is trained."""

    tables: Any
    """The rows: a `monolith.embedding.MultiTable`."""

    global_step: int = 0
    """Steps taken so far, in all runs together."""

    read_metrics: Callable[[], Mapping[str, float]] = dict
    """Computes the metrics of the recent past, such as "auc" and "logloss"; takes milliseconds, so not every step."""

    read_share: Callable[[], float | None] = lambda: None
    """Returns how much of the run is done, from 0 to 1; None where nobody knows its end."""

    save: Callable[[], None] | None = None
    """Writes a snapshot at once, for a hook that holds the run up; only from `before_run` and `after_run`, where no
    step is under way. None where nothing is trained."""

    save_dense: Callable[[], None] | None = None
    """As `save`, of dense weights alone, into the folder `dense_only`; nothing where all of this step is saved."""

    forget: Callable[[Mapping[str, Collection[int]]], Mapping[str, Mapping[str, Sequence[int]]]] | None = None
    """Removes rows and counts of ids, by table, between two steps; returns the ids that had "rows" and "counts". Saves
    under way end before, and the next one is a snapshot. Any thread may call it. None where nothing is trained."""

    fail: Callable[[Exception], None] = lambda error: None
    """Ends the run with an error before its next step, also while it waits for events; any thread may call it."""

    check: Callable[[], None] = lambda: None
    """Raises the error that `fail` was given; a hook that holds the run up calls it now and then."""

    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    """Inside its block no other thread changes rows or weights; for a hook that holds the run up."""

    pause: Any = None
    """How the run is paused between two steps: a `monolith.train.controller.pause.Pause`; None where nothing is
    trained."""

    error: BaseException | None = None
    """Why the run ends, when `end` is called because of an exception."""

    ending: str = field(default="", init=False)
    """How the run ended, in words, when `end` is called without an error."""

    num_steps: int = field(default=0, init=False)
    """Steps taken in this run."""

    stop_requested: bool = field(default=False, init=False)
    """Somebody asked for a stop."""

    save_requested: bool = field(default=False, init=False)
    """Somebody asked for a snapshot that is not written yet."""

    save_answered: int = field(default=0, init=False)
    """The newest request for a snapshot that has one, with all that was trained when it was made."""

    saved_step: int | None = field(default=None, init=False)
    """Steps taken when the newest snapshot was written."""

    times_rejected: int = field(default=0, init=False)
    """Events whose `req_time` is too far ahead to be believed: they do not move the clock that rows expire by."""

    num_save_requests: int = field(default=0, init=False)

    _requests: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def request_stop(self) -> None:
        """Let the run end after the present step, with a snapshot."""
        self.stop_requested = True

    def request_save(self) -> int:
        """Let the run write a snapshot after the present step; it is there once `save_answered` is this number.

        Any thread may ask. Nothing is written twice: where the step is saved already, there is nothing to do.
        """
        with self._requests:
            self.num_save_requests += 1
            self.save_requested = True
            return self.num_save_requests


class Hook:
    """Five moments of a run; override those of interest.

    >>> class StopAfter(Hook):
    ...     def __init__(self, num_steps):
    ...         self.num_steps = num_steps
    ...     def after_run(self, context, values):
    ...         if values.step + 1 >= self.num_steps:
    ...             context.request_stop()
    """

    def begin(self) -> None:
        """Run when a run starts, before anything is made or restored."""

    def after_create_session(self, context: RunContext) -> None:
        """Run once model and tables are made, and restored if there was a snapshot."""

    def before_run(self, context: RunContext) -> None:
        """Run before each step, when its batch has been read."""

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Run after each step with its values; `context.global_step` already counts it."""

    def end(self, context: RunContext) -> None:
        """Run at the end of a run: a snapshot is written, or `context.error` is the error that ended it.

        `context.saved_step` is the step to go on from.
        """
