"""Retries: how often a process of a job begins again after it lost others."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from monolith.errors import FencedError
from monolith.observe.metric_client import get_cli
from monolith.parallel.coordination import ReplacedError
from monolith.parallel.live.shards_sender import TakenOverError

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


_LOSSES = (ConnectionError, TimeoutError, FencedError)


def is_loss(error: BaseException) -> bool:
    """Return whether a process of a job that ended so lost others, or its place: it may be started again.

    A worker then joins what the job has become. A chief is refused if another one lives, and goes on if none does.

    >>> is_loss(FencedError("of generation 1")), is_loss(TakenOverError("by another job")), is_loss(ValueError("step"))
    (True, False, False)
    """
    return isinstance(error, _LOSSES) and not isinstance(error, TakenOverError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """The rules of a job."""

    max_retries: int = 0
    """Beginning again with other parameter servers counts; with the same ones it is free."""

    wait_seconds: float = 30.0

    is_chief: bool = False
    """One that was fenced ends: if it began again, it would take the job back from the chief that replaced it."""

    def run(
        self, attempt: Callable[[], Result], cluster: Callable[[], list[str]], failed: Callable[[], None] = lambda: None
    ) -> Result:
        """Return the result of the first attempt that succeeds.

        Only a lost process counts as such: a call that was cut off or not answered in time. `cluster` returns the
        parameter servers of the moment, or nothing before the first attempt; `failed` is called after each failure.
        """
        num_retries, before = 0, cluster()
        while True:
            try:
                return attempt()
            except _LOSSES as error:
                if isinstance(error, ReplacedError) or (self.is_chief and isinstance(error, FencedError)):
                    raise
                failed()
                get_cli().emit_counter("worker_failover_cnt", 1)
                _log.warning("a process of the job is lost, beginning again in %g s: %s", self.wait_seconds, error)
                time.sleep(self.wait_seconds)
                now = cluster()
                num_retries += bool(before) and now != before
                before = now
                if num_retries > self.max_retries:
                    error.add_note(
                        f"parameter servers were replaced {num_retries} times, and max_retry_times is "
                        f"{self.max_retries}"
                    )
                    raise
