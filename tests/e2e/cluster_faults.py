"""A job that something happens to, again and again, and an oracle that counts what it has trained on."""

import collections
import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from monolith.checkpoint import latest_state
from monolith.checkpoint.format.layout import STREAM_NAME
from monolith.checkpoint.format.manifest import read_manifest
from monolith.cluster.discovery import FilesServiceDiscovery
from tests.free_port import free_port
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, dispatch_events, expected, take_part, work_on_events
from tests.train.job.detour import Detour
from tests.train.job.running_job import Job

MODES = ("exact", "partial", "data service")
"""Ways to recover; in the last, a dispatcher and its workers read the data."""

CALL_MS = 1000
FAULT_SECONDS = 1.6
"""Longer than a call may take."""

STEP_SECONDS = 0.02
MAX_EVENTS = 2_000_000
EVENTS_PER_FAULT = 3000
"""Of a data service, whose input has an end: enough to last for the faults."""

NUM_WORKERS = 2
FAULTS = [
    *(("kill", "worker", index) for index in range(NUM_WORKERS)),
    *(("kill", "ps", index) for index in range(2)),
    ("freeze", "ps", 0),
    *(("cut off", "worker", index) for index in range(NUM_WORKERS)),
    *(("stall", "worker", index) for index in range(NUM_WORKERS)),
]
SERVICE_FAULTS = [("kill", "dispatcher", 0), ("kill", "dsworker", 0), ("kill", "dsworker", 1)]


class DataService:
    """Dispatcher and workers of a data service that reads the counting job's events."""

    def __init__(self, folder: Path, num_events: int) -> None:
        self._folder, self._num_events = folder, num_events
        self.address = f"127.0.0.1:{free_port()}"
        self._processes: dict[tuple[str, int], BaseProcess] = {}
        self._pipes: dict[tuple[str, int], Any] = {}
        self.start("dispatcher", 0)
        for index in range(2):
            self.start("dsworker", index)

    def start(self, kind: str, index: int) -> None:
        ours, theirs = PROCESSES.Pipe()
        arguments = (str(self._folder), self.address) if kind == "dispatcher" else (self.address, self._num_events)
        target = dispatch_events if kind == "dispatcher" else work_on_events
        process = PROCESSES.Process(target=target, args=(theirs, *arguments), daemon=True)
        process.start()
        theirs.close()
        self._processes[kind, index], self._pipes[kind, index] = process, ours
        assert ours.poll(PATIENCE_SECONDS), f"{kind} {index} did not start"
        ours.recv()

    def kill(self, kind: str, index: int) -> None:
        process = self._processes[kind, index]
        process.kill()
        process.join(PATIENCE_SECONDS)

    def __enter__(self) -> "DataService":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()


class FaultyJob:
    """A job of real processes in which something goes wrong when told to."""

    def __init__(self, folder: Path, mode: str, num_faults: int, cleanup: ExitStack) -> None:
        self.folder, self._mode = folder, mode
        self._num_events = EVENTS_PER_FAULT * num_faults if mode == "data service" else MAX_EVENTS
        self._detours = [cleanup.enter_context(Detour()) for _ in range(NUM_WORKERS)]
        self._service: DataService | None = None
        if mode == "data service":
            self._service = cleanup.enter_context(DataService(folder / "service", self._num_events))
        self.faults = [*FAULTS, *(SERVICE_FAULTS if self._service else [])]
        detours = {index: detour.port for index, detour in enumerate(self._detours)}
        self.job = cleanup.enter_context(self._start(self._num_events, seconds=STEP_SECONDS, detour=detours))

    def do(self, kind: str, server_type: str, index: int) -> None:
        """Let something happen, and take it back or replace what is gone."""
        if kind == "kill":
            owner = self._service if (server_type, index) in {one[1:] for one in SERVICE_FAULTS} else self.job
            assert owner is not None
            owner.kill(server_type, index)
            owner.start(server_type, index)
        elif kind == "freeze":
            process = self.job.processes[server_type, index]
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(FAULT_SECONDS)
            os.kill(process.pid, signal.SIGCONT)
        else:
            detour = self._detours[index]
            (detour.cut if kind == "cut off" else detour.stall)(self._ports_of_servers())
            time.sleep(FAULT_SECONDS)
            detour.heal()

    def await_snapshot_after(self, moment: float) -> bool:
        """Wait until the job has saved again, so it has recovered; False if it is through before."""
        end = time.monotonic() + PATIENCE_SECONDS
        while (path := latest_state(self.folder)) is None or path.stat().st_mtime <= moment:
            assert time.monotonic() < end, f"the job did not recover within {PATIENCE_SECONDS:g} s"
            if all(process.exitcode == 0 for process in self.job.processes.values()):
                return False
            time.sleep(0.02)
        return True

    def finish(self) -> int:
        """Stop the job in order, and let another one train on the rest; return the number of events."""
        self.job.processes["worker", 0].terminate()
        self._check_ends(self.job)
        # With partial recovery, servers may be ahead of the positions: what they have applied counts when repeated.
        num_events = self._num_events if self._service else num_events_begun(self.folder)
        with self._start(num_events) as job:
            self._check_ends(job)
        return num_events

    def _start(self, num_events: int, **options: Any) -> Job:
        if self._service:
            options |= {"use_dataservice": True, "data_service_dispatcher": self._service.address}
        return Job(
            self.folder,
            take_part,
            num_events=num_events,
            num_workers=NUM_WORKERS,
            partial_recovery=self._mode == "partial",
            max_retry_times=1000,
            operation_timeout_in_ms=CALL_MS,
            **options,
        )

    def _check_ends(self, job: Job) -> None:
        ends = job.ends()
        assert set(ends.values()) == {0}, f"not all processes ended well: {ends}"

    def _ports_of_servers(self) -> set[int]:
        found = FilesServiceDiscovery(self.folder / "cluster").query("ps")
        return {int(address.rpartition(":")[2]) for address in found.values()}


def run_faults(
    folder: Path, mode: str, num_faults: int, seed: int, tell: Callable[[str], None] = lambda words: None
) -> dict[str, Any]:
    """Let faults of all kinds happen to a job, check what it has trained on, and return what was done."""
    dice, began, done = random.Random(seed), time.monotonic(), collections.Counter[str]()
    with ExitStack() as cleanup:
        faulty = FaultyJob(folder, mode, num_faults, cleanup)
        moment = 0.0
        # Every kind comes by turns, in another order each time.
        order: list[tuple[str, str, int]] = []
        fault = ("", "", 0)
        for _ in range(num_faults):
            if not faulty.await_snapshot_after(moment):
                break
            time.sleep(dice.random() / 2)
            order = order or dice.sample(faulty.faults, len(faulty.faults))
            fault = order.pop()
            moment = time.time()
            faulty.do(*fault)
            done[" ".join(map(str, fault))] += 1
            tell(" ".join(map(str, fault)))
        if fault[:2] != ("kill", "worker"):
            time.sleep(2 * dice.random())  # it may be beginning again
        else:
            faulty.await_snapshot_after(moment)  # a chief that is only starting does not stop others
        num_events = faulty.finish()
    rows, weight, step = counted(folder)
    assert rows == expected(num_events), "an event was left out or counted twice"
    assert weight == step == num_events // BATCH, "a batch was left out or counted twice"
    return {
        "mode": mode,
        "seed": seed,
        "faults": dict(sorted(done.items())),
        "batches": step,
        "seconds": round(time.monotonic() - began, 1),
    }


def num_events_begun(model_dir: Path) -> int:
    """Return a number of events among which are all batches of any server, and of any worker."""
    path = latest_state(model_dir)
    assert path is not None
    rows = [position["row"] for position in json.loads((path / STREAM_NAME).read_text())["parts"] if position]
    ends = [end for shard in read_manifest(path).extra["shards"] for end in shard["applied"].values()]
    return int((max(*rows, *ends) // BATCH + 4) * BATCH)
