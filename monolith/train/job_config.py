"""JobConfig: which process of a job this is, and how its processes wait for each other."""

from dataclasses import dataclass

from monolith.parallel import RetryConfig

AUTOMATIC_RETRIES = 6
"""Of a job with partial recovery, if settings do not say it."""

CALL_SECONDS = 30.0
"""How long a parameter server may be silent, if settings do not say it."""

_ATTEMPT_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class JobConfig:
    """A run of several processes: parameter servers hold rows and weights, workers train; worker 0 is the chief.

    >>> JobConfig().is_job, JobConfig(num_ps=2, num_workers=3).is_job
    (False, True)
    """

    server_type: str = "worker"
    """What this process is: worker or ps."""

    index: int = 0
    """Which of its kind."""

    num_ps: int = 0
    num_workers: int = 1

    is_sync: bool = False
    """All workers take each step together, as ranks; there are no parameter servers."""

    row_gradients: str = "mean"
    """What ranks make of their gradients of a row: mean or sum."""

    is_local: bool = False
    """Everything is in this process, the parameter servers too."""

    partial_recovery: bool | None = None
    """After a failure, only new parameter servers are restored; the others keep what they have."""

    chief_timeout_seconds: int = 1800
    """How long processes wait for each other at the end."""

    call_timeout_ms: int = -1
    """How long a parameter server may be silent; -1 is half a minute."""

    max_slow_start_minutes: int = 10
    """How long later workers wait for the first steps of others."""

    max_retries: int = 0
    """How often a process begins again with other parameter servers; 0 is 6 with partial recovery, else none."""

    retry_wait_seconds: int = 30
    """Pause before that."""

    @property
    def is_job(self) -> bool:
        """Whether there are other processes: settings name them, or a role among them."""
        names_others = self.num_ps > 0 or self.num_workers > 1 or self.server_type == "ps" or self.index > 0
        return names_others and not self.is_local and not self.is_sync

    @property
    def call_retry(self) -> RetryConfig:
        """How long calls between processes may take."""
        seconds = self.call_timeout_ms / 1000 if self.call_timeout_ms > 0 else CALL_SECONDS
        return RetryConfig(deadline_seconds=seconds, attempt_seconds=min(seconds, _ATTEMPT_SECONDS))

    @property
    def num_retries(self) -> int:
        """How often a process begins again with other parameter servers."""
        return self.max_retries or (AUTOMATIC_RETRIES if self.partial_recovery else 0)

    def check(self) -> None:
        """Reject a role that no job has, and what a job cannot do."""
        if not self.is_job:
            return
        if self.num_ps < 1:
            raise ValueError(
                f"num_ps={self.num_ps}: workers have their tables on parameter servers; start at least one (num_ps=1)"
            )
        name = "num_ps" if self.server_type == "ps" else "num_workers"
        if not 0 <= self.index < getattr(self, name):
            raise ValueError(f"index={self.index}: there is no such {self.server_type}, {name}={getattr(self, name)}")
