"""RanksPause: the pause of ranks, at rank 0."""

from collections.abc import Callable

from monolith.train.controller.pause import Pause


class RanksPause(Pause):
    """While it lasts, all ranks meet again and again: none counts as silent, and the loss of one is noticed."""

    def __init__(self, num_ranks: int, meet: Callable[[], bool]) -> None:
        """Take what returns once all ranks stand still: whether one of them was asked to end the run."""
        super().__init__()
        self._num_ranks, self._meet = num_ranks, meet
        self._have_met = False

    def holds(self, *, is_ending: bool = False) -> bool:
        """Return whether the next step must wait."""
        must_wait = super().holds(is_ending=is_ending)
        self._have_met = self._have_met and must_wait
        return must_wait

    def stand_still(self) -> bool:
        """Meet the other ranks; return whether one of them was asked to end the run."""
        super().stand_still()
        is_over = self._meet()
        self._have_met = True
        return is_over

    def workers(self) -> tuple[list[int], list[int]]:
        """Return the ranks that wait, and those that do not wait yet."""
        waits, goes = super().workers()
        others = list(range(1, self._num_ranks))
        return (waits + others, goes) if waits and self._have_met else (waits, goes + others)
