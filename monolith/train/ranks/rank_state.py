"""RankState: what a rank of a synchronous job trains on; rank 0 restores, saves and says when all end."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from enum import IntEnum
from functools import partial
from typing import Any, cast

import torch

from monolith.data import Batch, Source
from monolith.embedding import MultiTable
from monolith.embedding.table import NO_TIME
from monolith.model import MonolithModel, Pulled
from monolith.model.lookup import PlannedBatch
from monolith.parallel.ranks import Exchange, RankTables
from monolith.parallel.ranks.exchange import not_finite
from monolith.parallel.ranks.rank_tables import GRADIENTS, RankBatchPlan
from monolith.train.culprit import place_of_batch
from monolith.train.job.served_state import key_of, push_behind
from monolith.train.ranks.pipeline import RankPipeline
from monolith.train.ranks.rank_job import RankJob, check_same_model
from monolith.train.ranks.rank_rows import make_rows
from monolith.train.state import StateConfig, TrainState
from monolith.train.state.clock import Reading


class Say(IntEnum):
    """What a rank says between two steps; from HOLD on, only rank 0 says it, and the others do it."""

    GO = 0
    """It has a batch."""
    END = 1
    """It takes no further step."""
    HOLD = 2
    """Stand still for a save."""
    EVICT = 3
    """Remove expired rows."""
    OPEN = 4
    """Begin to train."""
    DONE = 5
    """The job is over."""
    TELL = 6
    """Say how far you are, for servers that follow."""
    PAUSE = 7
    """Stand still, and say whether you were asked to stop."""


class RankState(TrainState):
    """The rows of one range of hashes, and a copy of the dense weights that is the same on all ranks.

    Between two steps all ranks meet (`begin_step`). The step happens if all have a batch; otherwise all end. Before
    that, rank 0 may let the others stand still for a save, as often as it likes.
    """

    def __init__(
        self, model: MonolithModel, source: Source, config: StateConfig, *, exchange: Exchange, job: RankJob
    ) -> None:
        """Make the plan and this rank's tables; a ValueError names what ranks do not have in common."""
        self.exchange, self._job = exchange, job
        self._cleanup = ExitStack()
        self._has_ended = False
        self._newest = (NO_TIME, NO_TIME)  # of all ranks: the newest event time, and where periods of eviction begin
        self._pipeline: RankPipeline[PlannedBatch | Pulled] | None = None
        super().__init__(model, source, config)
        if job.background is not None:
            tables = cast(RankTables, self.tables).over(job.background)
            # As `self.lookup`, for the thread of the pipeline.
            self._lookup_ahead = self._make_lookup(config, cast(MultiTable, tables))
            self._pipeline = RankPipeline(source, job.background, job.overlap, self._fetch)
            self._cleanup.enter_context(self._pipeline)

    def begin_step(self) -> bool:
        """Return whether all ranks have a batch; if not, `ending` says which has none, and why."""
        with self.waiting():
            goes_on = self._meet(Say.GO)
        if goes_on:
            return True
        self._note_endings("")
        return False

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the source."""
        return super().batches() if self._pipeline is None else self._pipeline.batches()

    def pull(self, batch: Batch) -> Pulled:
        """Return the rows of a batch, after the steps of all batches before, unless settings ask for earlier rows."""
        if self._pipeline is None:
            return super().pull(batch)
        found = self._pipeline.fetched()
        if not isinstance(found, Pulled):
            self._pipeline.wait_for_pushes(but=int(self._job.overlap.late_steps))
            found = self.lookup.plan_batch(batch.columns) if found is None else found
            cast(RankBatchPlan, found.batch_plan).exchange = self.exchange
            found = self.lookup.pull_planned(found)
        cast(RankBatchPlan, found.batch_plan).exchange = self.exchange
        return found

    def push(self, pulled: Pulled, batch: Batch, reading: Reading) -> None:
        """Give weights the mean of all ranks' gradients, and step the rows of a batch, maybe in the background.

        If a gradient of some rank is NaN or infinite, all ranks get a NotFiniteError, and no row changes.
        """
        plan = cast(RankBatchPlan, pulled.batch_plan)
        plan.key = key_of(batch)
        assert pulled.row_gradients is not None
        flat, is_finite = plan.checked(pulled.row_gradients())
        time = self._average_gradients(is_finite, reading)
        if self._pipeline is None or not self._job.overlap.pushes_behind:
            plan.send_gradients(flat, global_step=self.global_step, time=time)
            return
        plan.exchange = self._pipeline.exchange
        # The step before must be done if rows may lack one step only.
        self._pipeline.wait_for_pushes()
        send = partial(plan.send_gradients, flat, global_step=self.global_step, time=time)
        place = place_of_batch(batch, self.global_step)
        self._pipeline.push(partial(push_behind, send, pulled, place), doing=f"pushing {batch.name}")

    def drain(self) -> None:
        """Wait until the rows of all batches so far are stepped."""
        if self._pipeline is not None:
            self._pipeline.wait_for_pushes()

    def _average_gradients(self, is_finite: bool, reading: Reading) -> int:
        """Replace the gradients of weights by their means; return the newest time of all ranks' batches.

        What ranks have to agree on for this step travels with the means: every message makes all of them wait.
        """
        weights = [one for one in self.model.parameters() if one.requires_grad]
        # A rank whose batch does not use a weight has no gradient for it; it counts as zeros if another rank has one.
        found = torch.tensor([float(one.grad is not None) for one in weights])
        means = [_gradient_of(one) for one in weights]
        own = [is_finite, reading.time, reading.now, self.clock.first_time_after(reading)]
        said = self.exchange.average([*means, found], own)
        for rank, (ok, *_) in enumerate(said):
            if not ok:
                raise not_finite(GRADIENTS, rank)
        newest, now, first_time = (max(one[place] for one in said) for place in (1, 2, 3))
        self._newest = now, first_time
        for one, mean, share in zip(weights, means, found.tolist(), strict=True):
            one.grad = mean if share else None
        return newest

    def evict_if_due(self) -> None:
        """Remove expired rows if it is time to, by the newest event time of all ranks."""
        self.clock.now, self.clock.first_time = self._newest
        if self.clock.is_eviction_due(self.tables):
            self.drain()
            super().evict_if_due()

    def evict_expired(self) -> int:
        """Remove rows that have expired by now, in event time; returns how many."""
        self.drain()
        return super().evict_expired()

    def wait_for_others(self, ending: str, *, interrupted: bool, tick: Callable[[], None]) -> None:
        """Let all ranks end, if they have not agreed on it."""
        if not self._has_ended:
            self._meet(Say.END)
            self._note_endings(ending)

    def can_be_saved_after(self, error: Exception) -> bool:
        """Return whether the other ranks are there, and the parameter servers, if they hold the rows."""
        lost = ConnectionError if self._job.servers is None else (ConnectionError, TimeoutError)
        return not isinstance(error, lost)

    def close(self) -> None:
        """Stop what runs in the background, and the server of this rank's rows."""
        self._cleanup.close()

    def _meet(self, say: Say) -> bool:
        """Say something to all ranks; return whether all go on."""
        raise NotImplementedError

    def _gather(self, say: Say) -> list[int]:
        """Say something and return what every rank says; if all go on, begin the next batches that all have."""
        num_ready = 0 if self._pipeline is None else self._pipeline.num_ready
        said = self.exchange.gather_lists([say, num_ready])
        words = [word for word, _ in said]
        if self._pipeline is not None and not any(words):
            self._pipeline.begin_ready(min(ready for _, ready in said))
        return words

    def _fetch(self, batch: Batch) -> PlannedBatch | Pulled:
        """Exchange the ids of a batch in the background, and its rows if settings ask for them before their turn."""
        planned = self._lookup_ahead.plan_batch(batch.columns)
        return self._lookup_ahead.pull_planned(planned) if self._job.overlap.num_rows_ahead else planned

    def _position_after(self, batch: Batch) -> dict[str, Any]:
        return super()._position_after(batch) if self._pipeline is None else self._pipeline.position()

    def _tell(self) -> list[dict[str, Any]]:
        """Return how far every rank is, once its rows are stepped."""
        self.drain()
        own = {"offsets": self.offsets, "event_time": self.clock.now}
        return [json.loads(one) for one in self.exchange.gather_texts(json.dumps(own))]

    def _note_endings(self, ending: str) -> None:
        self._has_ended = True
        endings = self.exchange.gather_texts(ending)
        first = next(rank for rank, words in enumerate(endings) if words)
        self.ending = ending or f"rank {first}: {endings[first]}"

    def _make_tables(self, config: StateConfig) -> MultiTable:
        check_same_model(self.exchange, self.plan, self.model)
        self._rows = make_rows(self.exchange, self._job, self.plan, config, cleanup=self._cleanup)
        self.shards = self._rows.shards
        return cast(MultiTable, self._rows.tables)

    def _draws(self) -> dict[str, int]:
        """Return none: those of every rank come with its part of a save."""
        return {}

    def _position(self) -> dict[str, Any]:
        return {"stream": self.stream, "offsets": self.offsets, "clock": self.clock.state()}


def _gradient_of(weight: torch.nn.Parameter) -> torch.Tensor:
    if weight.grad is None:
        return torch.zeros_like(weight)
    return weight.grad.to_dense() if weight.grad.is_sparse else weight.grad
