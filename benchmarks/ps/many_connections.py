"""One table server with many connections at once, and a plain socket with as many."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from benchmarks.peer_process import TABLE_CLIENT, PeerProcess
from monolith.parallel import RemoteTables
from monolith.parallel.remote_plan import RemoteBatchPlan

Call = Callable[[], object]

KINDS = ("plain_pull", "plain_push", "encrypted_pull", "encrypted_push", "pull_socket", "push_socket")
"""What each client process can do."""

_START_NS = 200_000_000
"""By then all clients have been asked, and have made their first call."""


def calls_per_second(calls: Sequence[Call], repeats: int) -> float:
    """Return how many calls per second the callers make together, each on a thread of its own, `repeats` times."""
    ready = threading.Barrier(len(calls) + 1)

    def run(call: Call) -> None:
        call()
        ready.wait()
        for _ in range(repeats):
            call()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return len(calls) * repeats / (time.perf_counter() - start)


def rates(clients: Sequence[PeerProcess], connections: Sequence[int], repeats: int) -> dict[str, dict[int, float]]:
    """Return calls per second of each kind by number of connections; each client is a process that has one of each."""
    found: dict[str, dict[int, float]] = {kind: {} for kind in KINDS}
    with ThreadPoolExecutor(max_workers=len(clients)) as pool:
        for count, kind in itertools.product(connections, KINDS):
            begin_ns = time.monotonic_ns() + _START_NS
            taken = pool.map(lambda one, kind=kind, at=begin_ns: one.round(at, kind)[0], clients[:count])  # type: ignore[misc]
            found[kind][count] = count * repeats / max(taken)
    return found


@contextmanager
def client_processes(count: int, settings: dict[str, Any]) -> Iterator[list[PeerProcess]]:
    """Start clients, connected and ready; each takes one of four sets of ids."""
    with ExitStack() as stack:
        command = [str(TABLE_CLIENT.interpreter()), "-m", TABLE_CLIENT.module]
        clients = [stack.enter_context(PeerProcess(TABLE_CLIENT.name, command)) for _ in range(count)]
        with ThreadPoolExecutor(max_workers=count) as pool:
            list(pool.map(lambda i: clients[i].setup({**settings, "seed": i % 4}), range(count)))
        yield clients


def staleness_max(connect: Callable[[], RemoteTables], ids: Sequence[torch.Tensor], *, dim: int, repeats: int) -> int:
    """Return the most pushes of other workers between a worker's pull and its push; one worker per tensor of ids."""
    pushed = itertools.count()
    worst: list[int] = []
    latest = [0]

    def worker(plan: RemoteBatchPlan, out: torch.Tensor) -> Call:
        def step() -> None:
            plan.lookup(out)
            seen = latest[0]
            plan.apply_gradients(out, global_step=1)
            number = next(pushed)
            latest[0] = max(latest[0], number + 1)
            worst.append(number - seen)

        return step

    with ExitStack() as stack:
        plans = [stack.enter_context(connect()).plan(one, [len(one)]) for one in ids]
        calls_per_second([worker(plan, torch.empty(plan.num_ids * dim)) for plan in plans], repeats)
    return max(worst)
