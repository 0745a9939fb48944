"""A process of the benchmark: a rank of synchronous training, or one process without ranks; both the library's loop.

A rank also says how many seconds of a round it spent in calls to other ranks, and in waiting for planned ids.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.clicks.made_events import columns_of
from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from benchmarks.peers.protocol import Operation, serve
from benchmarks.sync.sizes import WORLD
from benchmarks.train.our_run import Turns, make_model
from monolith._core import native
from monolith.data import Source, arrays
from monolith.embedding import MultiTable
from monolith.embedding.hash_shards import shards_of_ids
from monolith.model import Lookup
from monolith.parallel.ranks import Exchange, RankGroup, RankPlace
from monolith.parallel.ranks.rank_group import MEETING_FILE
from monolith.train.loop import LoopConfig, Trainer
from monolith.train.ranks.first_rank import FirstRank
from monolith.train.ranks.other_rank import OtherRank
from monolith.train.ranks.pipeline import Overlap, RankPipeline
from monolith.train.ranks.rank_job import RankJob
from monolith.train.saving.saving_config import SavingConfig
from monolith.train.state import StateConfig, TrainState
from monolith.wire import SharedSecret

SILENT_SECONDS = 600.0
_CALLS = ("swap", "swap_counts", "average", "largest", "gather", "gather_lists")
_NUM_SWAPS = 20
_FLOAT_BYTES = 4


class Stopwatch:
    """Adds up seconds of methods in the thread that trains."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.seconds = 0.0
        self.thread: threading.Thread | None = None
        self._depth = 0

    def watch(self, owner: Any, *names: str) -> None:
        """Time these methods of an object from now on; a call inside another counts once."""
        for name in names:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is not self.thread or self._depth:
                return method(*arguments, **options)
            self._depth += 1
            start = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - start
                self._depth -= 1

        return call


class RankTurns(Turns):
    """Fills only the rows that a rank owns."""

    def __init__(self, shape: ClickShape, place: RankPlace) -> None:
        """Take turns of `shape.num_steps` steps."""
        super().__init__(shape)
        self._rows, self._place = shape.table_rows, place

    def fill(self, tables: MultiTable) -> None:
        """Make the first rows of this rank's part."""
        for name, count in zip(ID_NAMES, self._rows, strict=True):
            ids = torch.arange(1, count + 1)
            ids = ids[shards_of_ids(ids, self._place.num_ranks) == self._place.rank]
            tables.tables[name].apply_gradients(ids, torch.zeros(len(ids), tables.tables[name].dim))


class Run:
    """A training run in a thread of its own, which ends with the process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Begin."""
        shape = ClickShape.of(settings["shape"])
        self._place = RankPlace(rank=settings["rank"], num_ranks=settings["num_ranks"])
        self._turns = RankTurns(shape, self._place) if self._place.num_ranks > 1 else Turns(shape)
        self._calls, self._planning = Stopwatch(), Stopwatch()
        self._taken: dict[str, float] = {}
        source = arrays(
            columns_of(settings, WORLD, self._place.rank, self._place.num_ranks), batch_size=shape.batch_size
        )
        self._thread = threading.Thread(target=self._run, args=(shape, source, settings), daemon=True)
        self._calls.thread = self._planning.thread = self._thread
        self._thread.start()

    def operations(self) -> Mapping[str, Operation]:
        """Return what is offered: a round, and of the last one the seconds of its parts."""
        return {
            "train": self._round,
            "calls": lambda seed: (self._calls.seconds, 0),
            "planning": lambda seed: (self._planning.seconds, 0),
            "tables": lambda seed: (self._taken["tables"], 0),
        }

    def _round(self, seed: int) -> tuple[float, int]:
        self._calls.seconds = self._planning.seconds = 0.0
        self._taken = self._turns.turn()
        return self._taken["all"], 0

    def _run(self, shape: ClickShape, source: Source, settings: dict[str, Any]) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="monolith-sync-") as folder:
                saving = SavingConfig(folder=Path(folder))
                if self._place.num_ranks == 1:
                    state = TrainState(make_model(shape), source, StateConfig(evict_every_seconds=0))
                    Trainer(state, LoopConfig(), saving, hooks=[self._turns], saves=False).run()
                else:
                    self._run_rank(shape, source, saving, settings)
            self._turns.fail(RuntimeError("the events ended before the rounds did"))
        except BaseException as error:  # noqa: BLE001 - raised where the round was asked for
            self._turns.fail(error)

    def _run_rank(self, shape: ClickShape, source: Source, saving: SavingConfig, settings: dict[str, Any]) -> None:
        place, folder = self._place, Path(settings["folder"])
        overlap = Overlap(ids=settings["overlaps"], gradients=settings["overlaps"])
        group = RankGroup(place, folder, timeout_seconds=SILENT_SECONDS)
        with group as exchange:
            secret = SharedSecret.of_folder(folder)
            background = group.another_exchange() if overlap else None
            job = RankJob(secret=secret, overlap=overlap, background=background)
            kind = OtherRank if place.rank else FirstRank
            state = kind(make_model(shape), source, StateConfig(evict_every_seconds=0), exchange=exchange, job=job)
            if isinstance(state, FirstRank):
                state.let_workers_in(None)
            else:
                assert isinstance(state, OtherRank)
                state.join()
            self._watch(exchange, state)
            Trainer(state, LoopConfig(), saving, hooks=[self._turns], saves=False).run()

    def _watch(self, exchange: Exchange, state: FirstRank | OtherRank) -> None:
        self._calls.watch(exchange, *_CALLS)
        waits: Lookup | RankPipeline[Any] = state.lookup if state._pipeline is None else state._pipeline
        self._planning.watch(waits, "plan_batch" if isinstance(waits, Lookup) else "fetched")


def swaps(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Join the other rank, and offer for every size to swap pieces of it with all ranks."""
    place = RankPlace(rank=settings["rank"], num_ranks=settings["num_ranks"])
    exchange = RankGroup(place, Path(settings["folder"]), timeout_seconds=SILENT_SECONDS).__enter__()

    def swap_of(num_bytes: int) -> Operation:
        pieces = torch.zeros(num_bytes // _FLOAT_BYTES * place.num_ranks)
        sizes = [num_bytes // _FLOAT_BYTES] * place.num_ranks

        def swap(seed: int) -> tuple[float, int]:
            exchange.barrier()
            start = time.perf_counter()
            for _ in range(_NUM_SWAPS):
                exchange.swap(pieces, sizes, sizes)
            return (time.perf_counter() - start) / _NUM_SWAPS, 0

        return swap

    return {f"swap_{size}": swap_of(size) for size in settings["swapped_bytes"]}


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Become what the settings say: a rank, one process without others, or a rank that only swaps."""
    threads = settings["shape"]["num_threads"]
    torch.set_num_threads(threads)
    native.set_num_threads(threads)
    os.environ[MEETING_FILE] = str(Path(settings["folder"]) / f"meeting-{settings['name']}")
    return swaps(settings) if "swapped_bytes" in settings else Run(settings).operations()


if __name__ == "__main__":
    serve(setup)
