"""OtherRank: a rank that follows rank 0."""

import json
from collections.abc import Callable, Collection, Mapping

from safetensors.torch import load

from monolith.checkpoint import restore_dense_tensors
from monolith.checkpoint.format.dense_state import restore_random_tensors
from monolith.train.ranks.rank_state import RankState, Say


class OtherRank(RankState):
    """A rank that follows rank 0; somebody else saves it."""

    last_step: int | None = None

    stop_requested: Callable[[], bool] = staticmethod(lambda: False)
    """Whether somebody asked this rank to stop."""

    _is_paused = False

    def join(self) -> None:
        """Wait until rank 0 lets this rank begin, and take over its weights and this rank's position."""
        self.pause.is_held_by_others = lambda: self._is_paused
        self._obey_until(Say.OPEN)
        opening = json.loads(self.exchange.send_from_first())
        tensors = load(self.exchange.send_from_first())
        restore_dense_tensors(self.model, self.optimizer, tensors)
        restore_random_tensors(tensors)
        self.global_step, self.last_step = opening["global_step"], opening["last_step"]
        self.clock.restore(opening["clock"])
        if opening["positions"]:
            mine = opening["positions"][self.exchange.rank - 1]
            if mine["stream"] is not None:
                self.source.restore(mine["stream"])
                self.stream = dict(mine["stream"])
            self.offsets = dict(mine.get("offsets", {}))
            if "clock" in mine:
                self.clock.restore(mine["clock"])

    def forget(self, ids: Mapping[str, Collection[int]]) -> dict[str, dict[str, list[int]]]:
        """Refuse: rank 0 lets all ranks forget between the same two steps."""
        raise ValueError(f"rank {self.exchange.rank} cannot forget ids for all ranks; ask rank 0")

    def wait_for_others(self, ending: str, *, interrupted: bool, tick: Callable[[], None]) -> None:
        """End together with the others, and wait until rank 0 has saved everything."""
        super().wait_for_others(ending, interrupted=interrupted, tick=tick)
        self.pause.end_part()
        self._obey_until(Say.DONE)

    def _meet(self, say: Say) -> bool:
        while (said := self._gather(say))[0] >= Say.HOLD:
            self._is_paused = self._is_paused or said[0] == Say.PAUSE  # a save during a pause does not end it
            self._obey(Say(said[0]))
        self._is_paused = False
        return not any(said)

    def _obey_until(self, last: Say) -> None:
        while (order := Say(self._gather(Say.END)[0])) != last:
            self._obey(order)

    def _obey(self, order: Say) -> None:
        if order is Say.HOLD:
            self.drain()
            self.exchange.gather_texts(json.dumps(self._position()))
            self.exchange.barrier()  # rank 0 has taken the moment
        elif order is Say.TELL:
            self._tell()
        elif order is Say.PAUSE:
            self.drain()
            self.exchange.gather(int(self.stop_requested()))
        elif order is Say.EVICT:
            self.evict_expired()
        else:
            raise RuntimeError(f"rank 0 said {order.name} where nobody expects it")
