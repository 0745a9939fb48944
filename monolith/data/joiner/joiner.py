"""Joiner: a source of impressions, each with the actions that followed it and a label."""

import copy
import logging
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from monolith.data.batch import Batch
from monolith.data.joiner.clocks import NEVER, Clocks
from monolith.data.joiner.config import ACTION, IMPRESSION, JoinConfig
from monolith.data.joiner.keys import Keys
from monolith.data.joiner.negatives import keep_mask
from monolith.data.joiner.windows import Closed, Windows
from monolith.data.source import Source, State

_log = logging.getLogger(__name__)
_FOREVER = 1 << 62
_MAX_TIME = 1 << 40  # seconds; tens of thousands of years on
_COUNTS = ("num_late", "num_skipped", "num_duplicates", "num_dropped_negatives")
_STATE_KEYS = {"source", "clocks", "closed", "emitted", *_COUNTS}


class Joiner:
    """A source of impressions joined with their actions, out of a source that has both.

    An impression is given out once its window is over: when the newest event time, less the allowed lateness, has
    passed its time plus the window in every partition. It has its own columns, but for kind and action, and
    "actions" (the codes of all actions of its key in the window, by time), "label" (1 if one of them is positive,
    else 0) and "sample_rate" (1 for positives, the keep rate for negatives). Actions may come before their impression.

    An impression is a duplicate, and left out, if another one of the same key was less than a window before it. Late
    events are left out too; both are counted. One event from the far future makes all others late: filter such times
    before the joiner.

    The offsets of a batch are times: [first, last) is when the windows of its impressions end, always at multiples
    of `batch_seconds`. The same input gives the same batches, whichever way its partitions interleave (unless
    `max_skew_seconds` gave one up, or `num_partitions` is None).

    The position is one of the source before, from which everything that can still matter is read again (two windows
    back), and the time up to which batches were given out: its size does not depend on how much is open.
    """

    def __init__(self, source: Source, config: JoinConfig) -> None:
        """Take a source whose batches have the columns that the configuration names."""
        self.schema = config.output_schema(source.schema)
        self.source = source
        self.config = config
        self._begin()

    def _begin(self) -> None:
        self._clocks = Clocks(self.config)
        self._windows = Windows(self.config.window_seconds, self.config.step_seconds)
        self._closed, self._emitted = NEVER, NEVER
        self._checkpoints: list[tuple[int, State]] = []
        self.num_late = 0
        """Events that came after their window was over."""
        self.num_duplicates = 0
        """Impressions left out because their key had one already."""
        self.num_dropped_negatives = 0
        """Impressions left out by down-sampling."""
        self.num_skipped = 0
        """Events of no known kind or with an impossible time, with on_error="skip"."""

    @property
    def num_open(self) -> int:
        """Impressions that wait for their window to end."""
        return self._windows.num_open

    def __iter__(self) -> Iterator[Batch]:
        """Yield joined impressions, window by window."""
        batches = iter(self.source)
        while True:
            yield from self._emit(self._clocks.watermark())
            self._take_checkpoint()
            batch = next(batches, None)
            if batch is None:
                break
            self._take(batch)
        if self.config.at_end == "flush":
            yield from self._emit(_FOREVER)
        elif self.num_open:
            _log.info("%d impressions still wait for their windows to end (at_end='flush' closes them)", self.num_open)

    def state(self) -> State:
        """Return where to read again from, and up to which time batches were given out."""
        if not self._checkpoints:
            self._take_checkpoint()
        self._drop_checkpoints()
        counts = {"num_duplicates": self.num_duplicates, "num_dropped_negatives": self.num_dropped_negatives}
        return {**self._checkpoints[0][1], "emitted": self._emitted, **counts}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position; the windows open there are read again when iteration goes on."""
        if set(state) != _STATE_KEYS:
            raise ValueError(f"the state of a joiner has {', '.join(sorted(_STATE_KEYS))}, got {', '.join(state)}")
        self._begin()
        self.source.restore(state["source"])
        self._clocks.restore(state["clocks"])
        self._closed, self._emitted = state["closed"], state["emitted"]
        for name in _COUNTS:
            setattr(self, name, state[name])
        self._take_checkpoint()

    def shard(self, num_shards: int, index: int) -> Self:
        """Return the joiner of a part of the source: an impression and its actions must be in the same part.

        So it is if a topic is divided by key. Of `num_partitions`, the part has every `num_shards`-th.
        """
        part = copy.copy(self)
        part.source = self.source.shard(num_shards, index)
        partitions = self.config.num_partitions
        partitions = None if partitions is None else max(1, len(range(index, partitions, num_shards)))
        name = f"{self.config.name}-{index}-of-{num_shards}"
        part.config = replace(self.config, num_partitions=partitions, name=name)
        part._begin()
        return part

    # Checkpoints: positions before batches of the source, with the newest time of all events before them. ----------

    def _take_checkpoint(self) -> None:
        position = {
            "source": self.source.state(),
            "clocks": self._clocks.state(),
            "closed": self._closed,
            "num_late": self.num_late,
            "num_skipped": self.num_skipped,
        }
        self._checkpoints.append((self._clocks.newest, position))
        self._drop_checkpoints()

    def _drop_checkpoints(self) -> None:
        """Keep the last one that has all that matters behind it, and those after.

        Impressions that are yet to be given out are at most a window older than what was; the impressions that make
        duplicates of them, one more.
        """
        oldest = self._emitted - 2 * self.config.window_seconds
        complete = bisect_left(self._checkpoints, oldest, key=lambda checkpoint: checkpoint[0])
        del self._checkpoints[: max(0, complete - 1)]

    # Events in -----------------------------------------------------------------------------------------------------

    def _take(self, batch: Batch) -> None:
        batch = self._sane(batch)
        if not len(batch):
            return
        times, kinds, codes = (self._numbers(batch, name) for name in ("time", "kind", "action"))
        config = self.config
        in_time = self._clocks.admit(batch.partition, times)
        in_time &= times + config.window_seconds >= self._closed
        self.num_late += len(times) - int(in_time.sum())
        keys = Keys.of(batch, config.key)
        shown = np.flatnonzero(in_time & (kinds == IMPRESSION))
        if len(shown):
            names = [name for name in batch.columns if name not in (config.kind, config.action)]
            rows = batch.with_columns({name: batch.columns[name] for name in names}).select(torch.from_numpy(shown))
            self._windows.add_impressions(rows, times[shown], keys.take(shown))
        done = np.flatnonzero(in_time & (kinds == ACTION))
        if len(done):
            self._windows.add_actions(batch.partition, times[done], keys.take(done), codes[done])

    def _sane(self, batch: Batch) -> Batch:
        times, kinds = self._numbers(batch, "time"), self._numbers(batch, "kind")
        bad = ((kinds != IMPRESSION) & (kinds != ACTION)) | (times < 0) | (times >= _MAX_TIME)
        if not bad.any():
            return batch
        if self.config.on_error == "raise":
            place = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"event {place} of batch {batch.name}: {self.config.kind} must be 0 or 1 and {self.config.time} "
                f"from 0 to {_MAX_TIME - 1} s, got {kinds[place]} and {times[place]}; filter it, or on_error='skip'"
            )
        self.num_skipped += int(bad.sum())
        return batch.select(torch.from_numpy(~bad))

    def _numbers(self, batch: Batch, role: str) -> NDArray[np.int64]:
        column = batch.columns[getattr(self.config, role)]
        assert isinstance(column, torch.Tensor)
        return column.numpy()

    # Batches out ---------------------------------------------------------------------------------------------------

    def _emit(self, until: int) -> Iterator[Batch]:
        seconds = self.config.step_seconds
        for number in self._windows.due(until):
            first, last = number * seconds, (number + 1) * seconds
            closed = self._windows.close(number)
            self._closed = max(self._closed, last)
            # After a restore, windows that were given out before are closed again to rebuild what follows from them.
            if last <= self._emitted:
                continue
            batch = self._label(closed, first, last)
            self._emitted = last
            self.num_duplicates += closed.num_duplicates
            self.num_dropped_negatives += len(closed.keys) - len(batch)
            if len(batch):
                yield batch
        if until != _FOREVER and until != NEVER:
            self._closed = max(self._closed, until // seconds * seconds)
        if self._closed != NEVER:
            self._windows.forget(self._closed)

    def _label(self, closed: Closed, first: int, last: int) -> Batch:
        config = self.config
        actions = closed.actions
        codes = actions.values.numpy()
        counts = (
            np.ones(len(codes), np.bool_)
            if config.positive_actions is None
            else np.isin(codes, config.positive_actions)
        )
        positive = np.zeros(len(closed.keys), np.bool_)
        positive[actions.value_rowids().numpy()[counts]] = True
        columns = {
            **closed.columns,
            "actions": actions,
            "label": torch.from_numpy(positive.astype(np.float32)),
            "sample_rate": torch.from_numpy(np.where(positive, 1.0, config.negative_keep_rate).astype(np.float32)),
        }
        batch = Batch(columns=columns, first=first, last=last, partition=config.name)
        if config.negative_keep_rate == 1:
            return batch
        kept = positive | keep_mask(closed.keys.hashes, config.negative_keep_rate, config.seed)
        return batch.select(torch.from_numpy(kept))
