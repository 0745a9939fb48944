"""One table server with many connections at once, and a plain socket with as many."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch

from benchmarks.ps.plain_socket import PlainSocket
from monolith.parallel import RemoteTables
from monolith.parallel.remote_plan import RemoteBatchPlan

Call = Callable[[], object]


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


def rates(
    connect: Callable[[], RemoteTables],
    ids: Sequence[torch.Tensor],
    place: tuple[str, int],
    *,
    dim: int,
    connections: Sequence[int],
    repeats: int,
) -> dict[str, dict[int, float]]:
    """Return calls per second by number of connections: of pulls, of pushes, and of the same bytes by plain sockets."""
    num_ids = len(ids[0])
    ids_bytes, rows_bytes = 8 * num_ids, 4 * num_ids * dim
    found: dict[str, dict[int, float]] = {"pull": {}, "push": {}, "pull_socket": {}, "push_socket": {}}
    for count in connections:
        with ExitStack() as stack:
            plans = [stack.enter_context(connect()).plan(ids[i % len(ids)], [num_ids]) for i in range(count)]
            pulls = [PlainSocket(place, ids_bytes, rows_bytes) for _ in range(count)]
            pushes = [PlainSocket(place, ids_bytes + rows_bytes, 8) for _ in range(count)]
            for sock in (*pulls, *pushes):
                stack.callback(sock.close)
            found["pull"][count] = calls_per_second([_pull(plan, num_ids * dim) for plan in plans], repeats)
            found["pull_socket"][count] = calls_per_second([sock.exchange for sock in pulls], repeats)
            found["push"][count] = calls_per_second([_push(plan, num_ids * dim) for plan in plans], repeats)
            found["push_socket"][count] = calls_per_second([sock.exchange for sock in pushes], repeats)
    return found


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


def _pull(plan: RemoteBatchPlan, num_floats: int) -> Call:
    out = torch.empty(num_floats)
    return lambda: plan.lookup(out)


def _push(plan: RemoteBatchPlan, num_floats: int) -> Call:
    gradients = torch.randn(num_floats)
    return lambda: plan.apply_gradients(gradients, global_step=1)
