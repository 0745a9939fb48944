"""RankState: what a rank of a synchronous job trains on; rank 0 restores, saves and says when all end."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load, save

from monolith.checkpoint import Saver, Snapshot, dense_tensors, random_tensors, restore_dense_tensors
from monolith.checkpoint.format.dense_state import restore_random_tensors
from monolith.checkpoint.keep import Retention, SnapshotStore
from monolith.checkpoint.shards import ShardsSaver, load_into_shards
from monolith.data import Batch, Source
from monolith.embedding import MultiTable
from monolith.model import MonolithModel, Pulled
from monolith.model.lookup import PlannedBatch
from monolith.parallel import ParameterServer, RemoteShard
from monolith.parallel.ranks import Exchange, RankTables
from monolith.parallel.ranks.rank_tables import RankBatchPlan
from monolith.train.culprit import place_of_batch
from monolith.train.job.chief_state import WORKERS_KEY
from monolith.train.job.served_state import push_behind
from monolith.train.ranks.pipeline import RankPipeline
from monolith.train.ranks.rank_job import RankJob
from monolith.train.state import StateConfig, TrainState
from monolith.train.state.restore_config import RestoreConfig
from monolith.train.state.train_state import PARTS_KEY, check_num_parts


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
        if self._meet(Say.GO):
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

    def push(self, pulled: Pulled, batch: Batch, time: int) -> None:
        """Step the rows of a batch; if that happens in the background, the gradients are checked before."""
        if self._pipeline is None or not self._job.overlap.pushes_behind:
            super().push(pulled, batch, time)
            return
        assert pulled.row_gradients is not None
        plan = cast(RankBatchPlan, pulled.batch_plan)
        flat, time = plan.check_gradients(pulled.row_gradients(), time)
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

    def step_dense(self, batch: Batch) -> None:
        """Step the dense weights with the mean of all ranks' gradients."""
        weights = [one for one in self.model.parameters() if one.requires_grad]
        # A rank whose batch does not use a weight has no gradient for it; it counts as zeros if another rank has one.
        found = torch.tensor([float(one.grad is not None) for one in weights])
        means = [_gradient_of(one) for one in weights]
        self.exchange.average([*means, found])
        for one, mean, share in zip(weights, means, found.tolist(), strict=True):
            one.grad = mean if share else None
        super().step_dense(batch)

    def forget(self, ids: Mapping[str, Collection[int]]) -> dict[str, dict[str, list[int]]]:
        """Refuse: rows of all ranks would have to go between the same two steps."""
        raise ValueError("ranks cannot forget ids while they train; stop the run, forget, and start it again")

    def evict_if_due(self) -> None:
        """Remove expired rows if it is time to, by the newest event time of all ranks."""
        self.clock.now, self.clock.first_time = self.exchange.largest(self.clock.now, self.clock.first_time)
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
        """Return whether the other ranks are there."""
        return not isinstance(error, ConnectionError)

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

    def _note_endings(self, ending: str) -> None:
        self._has_ended = True
        endings = self.exchange.gather_texts(ending)
        first = next(rank for rank, words in enumerate(endings) if words)
        self.ending = ending or f"rank {first}: {endings[first]}"

    def _make_tables(self, config: StateConfig) -> MultiTable:
        exchange, job = self.exchange, self._job
        job.check_same(exchange, self.plan, self.model)
        server = self._cleanup.enter_context(ParameterServer(job.listen_at, secret=job.secret, tls=job.tls))
        self._addresses = exchange.gather_texts(str(server.address))
        self._init_shards(config)
        exchange.barrier()
        return cast(MultiTable, RankTables(server.shard.tables, exchange, average=job.averages_rows))

    def _init_shards(self, config: StateConfig) -> None:
        """Let every rank have its empty tables; rank 0 does it."""

    def _draws(self) -> dict[str, int]:
        """Return none: those of every rank come with its part of a save."""
        return {}

    def _position(self) -> dict[str, Any]:
        return {"stream": self.stream, "offsets": self.offsets, "clock": self.clock.state()}


class FirstRank(RankState):
    """Rank 0: its run restores, saves and ends for all."""

    _positions: list[Mapping[str, Any]]
    """Of all ranks, at the last save."""

    def saver(self, model_dir: Path, *, retention: Retention, mirror: SnapshotStore | None = None) -> Saver:
        """Return what saves the rows of all ranks as one checkpoint."""
        return ShardsSaver(model_dir, self.plan, self._shards, retention=retention, mirror=mirror)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside the block all ranks stand still between two steps."""
        self._gather(Say.HOLD)
        self.drain()
        self._positions = [json.loads(one) for one in self.exchange.gather_texts(json.dumps(self._position()))]
        try:
            yield
        finally:
            self.exchange.barrier()

    def moment(self, *, dense_only: bool = False) -> dict[str, Any]:
        """Return what is saved besides the rows, with the positions of all ranks."""
        found = super().moment(dense_only=dense_only)
        if len(self._positions) == 1:
            return found
        found["stream"] = {PARTS_KEY: [one["stream"] for one in self._positions]}
        if not dense_only:
            offsets: dict[str, int] = {}
            for one in self._positions:
                offsets |= one["offsets"]
            others = [{key: one[key] for key in ("clock", "offsets")} for one in self._positions[1:]]
            found["extra"] |= {"offsets": offsets, WORKERS_KEY: others}
        return found

    def evict_expired(self) -> int:
        """Remove expired rows on all ranks; the number is of this one."""
        self._gather(Say.EVICT)
        return super().evict_expired()

    def let_workers_in(self, last_step: int | None) -> None:
        """Send the others everything but rows, which they have: weights, steps, and their positions."""
        self._gather(Say.OPEN)
        opening = {
            "global_step": self.global_step,
            "last_step": last_step,
            "clock": self.clock.state(),
            "positions": self._opening_positions,
        }
        self.exchange.send_from_first(json.dumps(opening).encode())
        self.exchange.send_from_first(save({**dense_tensors(self.model, self.optimizer), **random_tensors()}))

    def dismiss(self) -> None:
        """End the job: everything is saved."""
        self._gather(Say.DONE)

    def _meet(self, say: Say) -> bool:
        return not any(self._gather(say))

    def _init_shards(self, config: StateConfig) -> None:
        self._opening_positions: list[Any] = []
        job, count = self._job, self.exchange.num_ranks
        self._shards = [
            self._cleanup.enter_context(RemoteShard(one, secret=job.secret, tls=job.tls, retry=job.retry))
            for one in self._addresses
        ]
        for index, shard in enumerate(self._shards):
            shard.init(self.plan, index, count, generation=1, initial_capacity=config.initial_capacity // count)
            shard.mark_initialized()

    def _load(self, path: Path, options: RestoreConfig, *, is_own: bool) -> Snapshot:
        return load_into_shards(
            path, self._shards, plan=self.plan, drop_not_finite=options.drop_not_finite, positions=is_own
        )

    def _go_to(self, path: Path, snapshot: Snapshot, offsets: dict[str, int]) -> None:
        count = self.exchange.num_ranks
        check_num_parts(path, snapshot.stream, count)
        if count == 1:
            super()._go_to(path, snapshot, offsets)
            return
        own, *others = snapshot.stream[PARTS_KEY]
        known = [dict(one) for one in snapshot.extra.get(WORKERS_KEY, ())]
        self._opening_positions = [
            {"stream": stream, **one} for stream, one in zip(others, known, strict=True) if stream is not None
        ]
        if len(self._opening_positions) < len(others):
            raise ValueError(
                f"{path} lacks the positions of some workers; restore an earlier checkpoint (restore_ckpt)"
            )
        self.source.restore(own)
        self.stream = dict(own)
        theirs = {name for one in known for name in one.get("offsets", {})}
        self.offsets = {name: end for name, end in offsets.items() if name not in theirs}


class OtherRank(RankState):
    """A rank that follows rank 0; somebody else saves it."""

    last_step: int | None = None

    def join(self) -> None:
        """Wait until rank 0 lets this rank begin, and take over its weights and this rank's position."""
        self._obey_until(Say.OPEN)
        opening = json.loads(self.exchange.send_from_first())
        tensors = load(self.exchange.send_from_first())
        restore_dense_tensors(self.model, self.optimizer, tensors)
        restore_random_tensors(tensors)
        self.global_step, self.last_step = opening["global_step"], opening["last_step"]
        self.clock.restore(opening["clock"])
        if opening["positions"]:
            mine = opening["positions"][self.exchange.rank - 1]
            self.source.restore(mine["stream"])
            self.stream = dict(mine["stream"])
            self.offsets = dict(mine.get("offsets", {}))
            if "clock" in mine:
                self.clock.restore(mine["clock"])

    def wait_for_others(self, ending: str, *, interrupted: bool, tick: Callable[[], None]) -> None:
        """End together with the others, and wait until rank 0 has saved everything."""
        super().wait_for_others(ending, interrupted=interrupted, tick=tick)
        self._obey_until(Say.DONE)

    def _meet(self, say: Say) -> bool:
        while (said := self._gather(say))[0] >= Say.HOLD:
            self._obey(Say(said[0]))
        return not any(said)

    def _obey_until(self, last: Say) -> None:
        while (order := Say(self._gather(Say.END)[0])) != last:
            self._obey(order)

    def _obey(self, order: Say) -> None:
        if order is Say.HOLD:
            self.drain()
            self.exchange.gather_texts(json.dumps(self._position()))
            self.exchange.barrier()  # rank 0 has taken the moment
        elif order is Say.EVICT:
            self.evict_expired()
        else:
            raise RuntimeError(f"rank 0 said {order.name} where nobody expects it")


def _gradient_of(weight: torch.nn.Parameter) -> torch.Tensor:
    if weight.grad is None:
        return torch.zeros_like(weight)
    return weight.grad.to_dense() if weight.grad.is_sparse else weight.grad
