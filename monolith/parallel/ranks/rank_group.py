"""RankGroup: the ranks of one run, joined and left together; if one fails, the others say why."""

import functools
import hashlib
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType

import torch
import torch.distributed as dist
from torch.distributed import FileStore, HashStore, PrefixStore, Store, rendezvous  # type: ignore[attr-defined]

from monolith.cluster.platform.mpi import get_mpi_local_size, get_mpi_rank, get_mpi_size, is_under_mpi
from monolith.parallel.ranks.exchange import CPU, Exchange

WORDS_SECONDS = 5.0
"""How long a rank waits for others to say why they ended."""

MEETING_FILE = "MONOLITH_RANKS_MEET_IN"
"""Environment variable: a new file, which all ranks see, to find each other by. `monolith launch --sync` sets it."""

_POLL_SECONDS = 0.05
_INTERFACE = "GLOO_SOCKET_IFNAME"
_runs = itertools.count()


@dataclass(frozen=True, kw_only=True, slots=True)
class RankPlace:
    """Which rank this process is, of how many, as the program that started it says.

    >>> RankPlace().num_ranks
    1
    """

    rank: int = 0
    num_ranks: int = 1
    is_one_machine: bool = True
    """All ranks are on this machine."""

    @classmethod
    def of_this_process(cls) -> "RankPlace":
        """Read the environment that torchrun, `monolith launch` or mpirun made; without one, this is the only rank."""
        if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
            rank, num_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            num_local = int(os.environ.get("LOCAL_WORLD_SIZE", 0))
        elif is_under_mpi():
            rank, num_ranks, num_local = get_mpi_rank(), get_mpi_size(), get_mpi_local_size()
        else:
            return cls()
        if not 0 <= rank < num_ranks:
            raise ValueError(f"this is rank {rank} of {num_ranks}; ranks count from 0: look at RANK and WORLD_SIZE")
        return cls(rank=rank, num_ranks=num_ranks, is_one_machine=num_local == num_ranks)


class RankGroup:
    """The process group of one run; its block returns an `Exchange`.

    Ranks that end well wait for each other before they close their connections: one that closed first would look
    failed to others. A rank that fails leaves its error for the others, whose calls raise a ConnectionError with it.
    """

    def __init__(self, place: RankPlace, folder: Path, *, timeout_seconds: float, device: torch.device = CPU) -> None:
        """Meet in `folder`, or at the address in MASTER_ADDR; a rank may be silent for `timeout_seconds`.

        Messages leave from the memory of `device`, a GPU's by NCCL and the processor's by gloo.
        """
        self._place = place
        self._device = device
        self._folder = folder
        self._timeout = timedelta(seconds=timeout_seconds)

    def __enter__(self) -> Exchange:
        """Wait for all ranks and connect to them."""
        place = self._place
        if dist.is_initialized():
            raise ValueError(
                "torch.distributed has a process group already; a synchronous run makes its own: leave out "
                "init_process_group, or call destroy_process_group before"
            )
        # Every run of this process has its own keys; all ranks make the same runs.
        self._store = PrefixStore(f"monolith run {next(_runs)}", _meeting(place, self._folder))
        self._store.set_timeout(self._timeout)
        with _loopback(place.is_one_machine):
            dist.init_process_group(
                "nccl" if self._device.type == "cuda" else "gloo",
                store=PrefixStore("group", self._store),
                rank=place.rank,
                world_size=place.num_ranks,
                timeout=self._timeout,
            )
        return Exchange(device=self._device, explain=self._explain)

    def another_exchange(self) -> Exchange:
        """Return an exchange for a thread beside the main one; all ranks ask for one at the same time.

        Calls of two threads must not get mixed up.
        """
        with _loopback(self._place.is_one_machine):
            return Exchange(dist.new_group(timeout=self._timeout), device=self._device, explain=self._explain)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave together; after an error, say it to the others and leave at once."""
        try:
            if error is None:
                self._leave_together()
            else:
                self._say(error)
        except RuntimeError:
            # The meeting place is gone with the rank that held it; a run that ended well has nothing left to say.
            pass
        finally:
            dist.destroy_process_group()
        if _is_own(error) and self._place.rank == 0:
            self._stay_for_readers()

    def _say(self, error: BaseException) -> None:
        """Leave word for the other ranks why this one fails, if it is not because another did."""
        if _is_own(error):
            words = " ".join(str(error).split())
            self._store.set(f"failed {self._place.rank}", f"{type(error).__name__}: {words}"[:2000])
        if self._place.rank:
            self._store.add("read", 1)

    def _leave_together(self) -> None:
        place = self._place
        self._store.add("done", 1)
        self._wait("done", place.num_ranks, self._timeout.total_seconds())
        # The store may be in the process of rank 0: it leaves last.
        if place.rank:
            self._store.add("left", 1)
        else:
            self._wait("left", place.num_ranks - 1, WORDS_SECONDS)

    def _stay_for_readers(self) -> None:
        """Keep the store, which may be in this process, until the others have ended too."""
        try:
            self._wait("read", self._place.num_ranks - 1, WORDS_SECONDS)
        except RuntimeError:
            pass

    def _wait(self, key: str, count: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self._store.add(key, 0) < count and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)

    def _explain(self, error: RuntimeError) -> str:
        """Return why a call failed: what others said before they ended, or which of them say nothing."""
        place = self._place
        others = [rank for rank in range(place.num_ranks) if rank != place.rank]
        try:
            self._store.set_timeout(timedelta(seconds=WORDS_SECONDS))
            self._store.set(f"here {place.rank}", "")
            end = time.monotonic() + WORDS_SECONDS
            while True:
                said = [rank for rank in others if self._store.check([f"failed {rank}"])]
                if said:
                    words = "; ".join(f"rank {rank}: {self._store.get(f'failed {rank}').decode()}" for rank in said)
                    return f"rank {place.rank} stopped, because another rank failed: {words}"
                missing = [rank for rank in others if not self._store.check([f"here {rank}"])]
                if not missing or time.monotonic() > end:
                    break
                time.sleep(_POLL_SECONDS)
        except RuntimeError:
            missing = [0] if place.rank else others
        names = ", ".join(map(str, missing)) or "unknown"
        return (
            f"rank {place.rank} lost others (rank {names}): they were killed, hang, or cannot be reached "
            f"({' '.join(str(error).split())[:300]}). Look at their logs; the job continues from its newest checkpoint"
        )


def _is_own(error: BaseException | None) -> bool:
    """Return whether an error began on this rank, and is not the loss of another."""
    return error is not None and not isinstance(error, ConnectionError)


@functools.cache
def _meeting(place: RankPlace, folder: Path) -> Store:
    """Return where the ranks of this process's job meet; once per process, since rank 0 may hold it."""
    if place.num_ranks == 1:
        return HashStore()
    if MEETING_FILE in os.environ:
        return FileStore(os.environ[MEETING_FILE], place.num_ranks)
    if "MASTER_ADDR" in os.environ:
        url = f"env://?rank={place.rank}&world_size={place.num_ranks}"
        store: Store = next(iter(rendezvous(url)))[0]
        return store
    # Which run of Open MPI's mpirun this is: the same on all hosts.
    run = "".join(os.environ.get(name, "") for name in ("PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"))
    if "PMIX_NAMESPACE" not in os.environ:
        raise ValueError(
            f"rank {place.rank} of {place.num_ranks} does not know where the ranks meet; set MASTER_ADDR and "
            "MASTER_PORT, as torchrun does"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return FileStore(str(folder / f"ranks-{hashlib.sha256(run.encode()).hexdigest()[:16]}"), place.num_ranks)


@contextmanager
def _loopback(wanted: bool) -> Iterator[None]:
    """Inside the block, gloo listens where only this machine can reach it, unless somebody chose an interface."""
    if not wanted or _INTERFACE in os.environ:
        yield
        return
    os.environ[_INTERFACE] = "lo"
    try:
        yield
    finally:
        del os.environ[_INTERFACE]
