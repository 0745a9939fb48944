"""JobConfig: which process of a job this is, and how its processes wait for each other."""

import warnings
from dataclasses import dataclass

from monolith.cluster.platform.open_files import make_room_for_files
from monolith.observe.machine_health import NO_LIMIT, MachineInfo
from monolith.parallel import RetryConfig

AUTOMATIC_RETRIES = 6
"""Of a job with partial recovery, if settings do not say it."""

CALL_SECONDS = 30.0
"""How long a parameter server may be silent, if settings do not say it."""

MIN_SERVER_CONNECTIONS = 1024
"""Connections that a parameter server takes in any case, such as from people who ask how a job is."""

_CONNECTIONS_PER_PAIR = 4
"""Of a worker and a parameter server: one for rows, one for dense weights, and as many again for a while.

A server keeps a connection that was lost on the way until it learns of it. The chief has others to control servers.
"""

_OWN_FILES = 256
"""Files of a process beside its connections to others of its job: libraries, data, snapshots, logs."""

_ATTEMPT_SECONDS = 20.0

_MEMORY_LIMIT = "monolith_default_machine_info_mem_limit"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobConfig:
    """A run of several processes: parameter servers hold rows and weights, workers train; worker 0 is the chief.

    >>> JobConfig().is_job, JobConfig(num_ps=2, num_workers=3).is_job
    (False, True)
    """

    server_type: str = "worker"
    """What this process is: worker or ps; dispatcher or dsworker, if the job has a data service of its own."""

    index: int = 0
    """Which of its kind."""

    num_ps: int = 0
    num_extra_ps: int = 0
    """Servers more than that; the slowest are left out."""

    num_redundant_ps: int = 0
    """Servers more than that; they wait for one to be lost."""

    num_workers: int = 1

    is_sync: bool = False
    """All workers take each step together, as ranks; there are no parameter servers, unless they hold the rows."""

    keeps_rows_on_ps: bool = False
    """The ranks have their rows on parameter servers, and their dense weights themselves."""

    row_gradients: str = "mean"
    """What ranks make of their gradients of a row: mean or sum."""

    exchanges_ids_ahead: bool = False
    """Ranks exchange the ids of the next batch while they compute."""

    exchanges_gradients_behind: bool = False
    """Ranks exchange the gradients of rows while they step dense weights."""

    steps_rows_late: bool = False
    """Ranks step rows in the background; the next batch may lack that step."""

    is_local: bool = False
    """Everything is in this process, the parameter servers too."""

    half_precision_rows: bool = False
    """Rows and their gradients travel as fp16; the parameter servers keep float32."""

    partial_recovery: bool | None = None
    """After a failure, only new parameter servers are restored; the others keep what they have."""

    chief_timeout_seconds: int = 1800
    """How long processes wait for each other at the end."""

    call_timeout_ms: int = -1
    """How long a parameter server may be silent; -1 is half a minute. Ranks read -1 as half an hour.

    In the original -1 is no limit: TensorFlow notices lost servers by itself. Here silence is how a loss is noticed.
    """

    max_slow_start_minutes: int = 10
    """How long later workers wait for the first steps of others."""

    max_retries: int = 0
    """How often a process begins again with other parameter servers; 0 is 6 with partial recovery, else none."""

    retry_wait_seconds: int = 30
    """Pause before that."""

    prefetch_capacity: int = 0
    """Batches whose rows a worker may fetch before their turn."""

    pushes_rows_behind: bool = False
    """Gradients of rows, and those of dense weights, are pushed while the worker goes on."""

    pushes_dense_behind: bool = False
    """The same; both go together."""

    max_staleness: int | None = None
    """How many of its own last pushes the rows of a worker may lack; None is as many as the above let it."""

    memory_limit_bytes: int = NO_LIMIT
    """A parameter server whose process has this much memory in use is not well."""

    @property
    def machine(self) -> MachineInfo:
        """What the process of a parameter server may use."""
        return MachineInfo(self.memory_limit_bytes)

    @property
    def ahead(self) -> int | None:
        """Batches whose rows a worker fetches before their turn; None: it pulls and pushes in turn.

        >>> JobConfig().ahead, JobConfig(pushes_rows_behind=True).ahead, JobConfig(max_staleness=2).ahead
        (None, 0, 2)
        >>> JobConfig(prefetch_capacity=4, max_staleness=2).ahead
        2
        """
        limits = [one for one in (self.prefetch_capacity or None, self.max_staleness) if one is not None]
        ahead = min(limits, default=0)
        return ahead if ahead or self.pushes_rows_behind or self.pushes_dense_behind else None

    @property
    def is_job(self) -> bool:
        """Whether there are other processes: settings name them, or a role among them."""
        names_others = self.num_ps > 0 or self.num_workers > 1 or self.server_type != "worker" or self.index > 0
        return names_others and not self.is_local and not self.is_sync

    @property
    def has_rows_on_ps(self) -> bool:
        """Whether the rows are on parameter servers, in other processes or in this one.

        >>> JobConfig(num_ps=2).has_rows_on_ps, JobConfig(num_ps=2, is_sync=True).has_rows_on_ps
        (True, False)
        """
        return self.keeps_rows_on_ps if self.is_sync else self.is_job or self.num_ps > 0

    @property
    def num_spares(self) -> int:
        """Parameter servers that are started beyond those that hold shards."""
        return self.num_extra_ps + self.num_redundant_ps

    @property
    def _num_of_kind(self) -> int:
        counts = {"ps": self.num_ps + self.num_spares, "worker": self.num_workers, "dispatcher": 1}
        return counts.get(self.server_type, self.index + 1)  # any number of data workers

    @property
    def server_connections(self) -> int:
        """How many connections a parameter server takes at a time.

        >>> JobConfig(num_ps=1000, num_workers=1000).server_connections
        4000
        """
        return max(MIN_SERVER_CONNECTIONS, _CONNECTIONS_PER_PAIR * self.num_workers)

    @property
    def num_files(self) -> int:
        """How many files and connections this process of a job may have open at a time.

        >>> JobConfig(num_ps=1000, num_workers=1000).num_files  # the chief, whom workers report to
        8256
        """
        is_worker = self.server_type == "worker"
        num_servers = self.num_ps + self.num_spares if is_worker else 0
        num_servers *= 2 if self.is_local else 1  # both ends are here
        num_workers = 0 if is_worker and self.index and not self.is_sync else self.num_workers
        return _OWN_FILES + _CONNECTIONS_PER_PAIR * (num_servers + num_workers)

    def make_room_for_files(self) -> None:
        """Let this process open as many files as it may need in its job; warn if the system does not allow it."""
        reason = f"the job has {self.num_ps + self.num_spares} parameter servers and {self.num_workers} workers"
        make_room_for_files(self.num_files, reason=reason)

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
        """Reject a role that no job has, and what a job cannot do; say what only a job does."""
        for name in ("num_extra_ps", "num_redundant_ps"):
            count = getattr(self, name)
            if count < 0:
                raise ValueError(f"{name} must not be negative, got {count}")
            if count and not self.is_job:
                raise ValueError(
                    f"{name}={count}: spare parameter servers are processes of a job; set num_ps, and leave is_local "
                    "out"
                )
        for name, value in (
            ("embedding_prefetch_capacity", self.prefetch_capacity),
            ("max_staleness", self.max_staleness),
        ):
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        self._check_memory_limit()
        self._warn_of_no_effect()
        self._check_ranks()
        if self.half_precision_rows and not self.has_rows_on_ps:
            raise ValueError(
                "half_precision_rows=True: rows travel only between workers and parameter servers, and this run has "
                "none; set num_ps (for ranks, enable_partial_sync_training too), or leave half_precision_rows out"
            )
        if not self.is_job and not self.keeps_rows_on_ps:
            return
        if self.num_ps < 1:
            raise ValueError(
                f"num_ps={self.num_ps}: workers have their tables on parameter servers; start at least one (num_ps=1)"
            )
        if not 0 <= self.index < self._num_of_kind:
            name = "num_ps" if self.server_type == "ps" else "num_workers"
            spares = f" and {self.num_spares} spares" if self.server_type == "ps" and self.num_spares else ""
            count = "a job has one" if self.server_type == "dispatcher" else f"{name}={getattr(self, name)}{spares}"
            raise ValueError(f"index={self.index}: there is no such {self.server_type}, {count}")

    def _check_memory_limit(self) -> None:
        limit = self.memory_limit_bytes
        if limit < 1:
            raise ValueError(f"{_MEMORY_LIMIT}={limit}: a limit of memory is at least 1 byte; leave it out for none")
        if limit != NO_LIMIT and not (self.is_job or self.keeps_rows_on_ps):
            raise ValueError(
                f"{_MEMORY_LIMIT}={limit} is for the processes of parameter servers, and there are none: set num_ps "
                "and leave is_local out, or leave the limit out"
            )

    def _check_ranks(self) -> None:
        if not self.keeps_rows_on_ps:
            if self.is_sync and self.server_type == "ps":
                raise ValueError(
                    "server_type=ps: with enable_sync_training the ranks hold the rows themselves; set "
                    "enable_partial_sync_training to keep them on parameter servers, or start no server"
                )
            return
        if not self.is_sync:
            raise ValueError(
                "enable_partial_sync_training keeps the rows of ranks on parameter servers; set enable_sync_training "
                "too, or leave it out for workers that do not wait for each other"
            )
        if self.server_type not in ("ps", "worker"):
            raise ValueError(
                f"server_type={self.server_type}: with enable_partial_sync_training a process is a ps or a worker; "
                "start a data service by itself"
            )

    def _warn_of_no_effect(self) -> None:
        """Say which settings need another kind of job."""
        found = []
        if self.is_sync and (self.pushes_rows_behind or self.pushes_dense_behind):
            found.append(
                "enable_embedding_postpush, enable_variable_postpush: they are for workers with parameter servers and "
                "have no effect with enable_sync_training; set enable_pipelined_bwda2a or enable_async_optimize"
            )
        if not self.is_sync and (self.exchanges_ids_ahead or self.exchanges_gradients_behind or self.steps_rows_late):
            found.append(
                "enable_pipelined_fwda2a, enable_pipelined_bwda2a, enable_async_optimize: they are for ranks and have "
                "no effect without enable_sync_training"
            )
        if not self.is_job and not self.is_sync and self.ahead is not None:
            found.append(
                "max_staleness, embedding_prefetch_capacity, enable_embedding_postpush, enable_variable_postpush: they "
                "are for jobs of several processes and have no effect in one process"
            )
        for words in found:
            warnings.warn(words, stacklevel=4)
