"""FirstRank: rank 0 of a synchronous job; it restores, saves and ends for all."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save

from monolith.checkpoint import Saver, Snapshot, dense_tensors, random_tensors
from monolith.checkpoint.keep import Retention, SnapshotStore
from monolith.checkpoint.shards import ShardsSaver, load_into_shards
from monolith.data import Source
from monolith.data.parts import PartSource
from monolith.data.parts.part_source import num_events_in
from monolith.embedding.table import NO_TIME
from monolith.model import MonolithModel
from monolith.parallel.ranks import Exchange
from monolith.train.job.scale.divided import WORKERS_KEY, divided
from monolith.train.ranks.rank_job import RankJob
from monolith.train.ranks.rank_state import RankState, Say
from monolith.train.ranks.ranks_pause import RanksPause
from monolith.train.state import StateConfig
from monolith.train.state.restore_config import RestoreConfig
from monolith.train.state.train_state import PARTS_KEY


class FirstRank(RankState):
    """Rank 0: its run restores, saves and ends for all."""

    _positions: list[Mapping[str, Any]]
    """Of all ranks, at the last save."""

    _opening_positions: Sequence[Mapping[str, Any]] = ()
    """Where the other ranks begin; nothing if all begin at the start of their data."""

    _tell_seconds: float | None = None
    _next_tell = 0.0
    _watermark: Mapping[str, int] = {"event_seq": -1, "event_time": NO_TIME}

    def __init__(
        self, model: MonolithModel, source: Source, config: StateConfig, *, exchange: Exchange, job: RankJob
    ) -> None:
        """Make what every rank has, and a pause for all of them."""
        super().__init__(model, source, config, exchange=exchange, job=job)
        self.pause = RanksPause(exchange.num_ranks, self._stand_still_together)

    def saver(self, model_dir: Path, *, retention: Retention, mirror: SnapshotStore | None = None) -> Saver:
        """Return what saves the rows of all ranks as one checkpoint."""
        return ShardsSaver(model_dir, self.plan, self.shards, retention=retention, mirror=mirror)

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

    def end_servers(self) -> None:
        """Let the parameter servers end, if they hold the rows, once no rank asks them anything more."""
        self.exchange.barrier()
        self._rows.shut_down_servers()

    def tell_every(self, seconds: float) -> None:
        """Learn this often how far all ranks are, for `watermark`."""
        self._tell_seconds = seconds

    def watermark(self) -> dict[str, int]:
        """Return how far all ranks were when they last said it; all before that is in rows and weights."""
        return dict(self._watermark)

    def wait_for_others(self, ending: str, *, interrupted: bool, tick: Callable[[], None]) -> None:
        """Let all ranks end, and learn how far they are."""
        super().wait_for_others(ending, interrupted=interrupted, tick=tick)
        if self._tell_seconds is not None:
            self._learn_how_far()

    def _meet(self, say: Say) -> bool:
        if self._tell_seconds is not None and time.monotonic() >= self._next_tell:
            self._learn_how_far()
            self._next_tell = time.monotonic() + self._tell_seconds
        return not any(self._gather(say))

    def _stand_still_together(self) -> bool:
        """Return, once all ranks stand still, whether another one was asked to stop."""
        self._gather(Say.PAUSE)
        self.drain()
        return any(self.exchange.gather(0))

    def _learn_how_far(self) -> None:
        self._gather(Say.TELL)
        said = self._tell()
        num_events = num_events_in([one["offsets"] for one in said], all_done=self._has_ended)
        self._watermark = {"event_seq": num_events - 1, "event_time": max(one["event_time"] for one in said)}

    def _claim_generation(self, folder: Path) -> int:
        claimed = self._rows.generation
        return super()._claim_generation(folder) if claimed is None else claimed

    def _load(self, path: Path, options: RestoreConfig, *, is_own: bool) -> Snapshot:
        return load_into_shards(
            path, self.shards, plan=self.plan, drop_not_finite=options.drop_not_finite, positions=is_own
        )

    def _go_to(self, path: Path, snapshot: Snapshot, offsets: dict[str, int]) -> None:
        saved = list(snapshot.stream.get(PARTS_KEY, [snapshot.stream]))
        if any(one is None for one in saved):
            raise ValueError(
                f"{path} lacks the positions of some workers; restore an earlier checkpoint (restore_ckpt)"
            )
        assert isinstance(self.source, PartSource)
        (own, *others), known = divided(snapshot, self.exchange.num_ranks, self.source.redivide)
        if own is not None:
            self.source.restore(own)
            self.stream = dict(own)
        self._opening_positions = [{"stream": stream, **one} for stream, one in zip(others, known, strict=True)]
        theirs = {name for one in known for name in one.get("offsets", {})}
        self.offsets = {name: end for name, end in offsets.items() if name not in theirs}
