"""The service as processes of their own, which are killed while they work."""

import os
import signal
from multiprocessing.connection import wait

import pytest

from monolith.data_service import ServiceSource, service_status
from tests.data_service.numbered_input import INPUT, LARGE_INPUT, NUM_LARGE, NUM_RECORDS, dispatch, seqs, train, work
from tests.free_port import free_port
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS


class Processes:
    """Starts functions as processes that talk through a pipe, and ends them with the test."""

    def __init__(self) -> None:
        self._started = []

    def start(self, function, *arguments):
        """Return the process, our end of the pipe, and the first thing it says."""
        ours, theirs = PROCESSES.Pipe()
        process = PROCESSES.Process(target=function, args=(theirs, *arguments), daemon=True)
        process.start()
        theirs.close()
        self._started.append((process, ours))  # a pipe that is forgotten is closed
        assert ours.poll(PATIENCE_SECONDS), f"{function.__name__} did not start"
        return process, ours, ours.recv()

    def kill(self, process):
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE_SECONDS)
        assert process.exitcode == -signal.SIGKILL

    def close(self):
        for process, _ in self._started:
            if process.is_alive():
                process.kill()
            process.join(PATIENCE_SECONDS)


@pytest.fixture
def processes():
    started = Processes()
    yield started
    started.close()


def dispatcher_settings(folder, **changed):
    return {
        "input": INPUT,
        "num_splits": 6,
        "state_path": str(folder),
        "address": f"127.0.0.1:{free_port()}",  # it may be started again there
        "lease_seconds": 300.0,
        **changed,
    }


def start_workers(processes, address, count):
    """Start workers that read little ahead; return processes by address."""
    started = [processes.start(work, {"dispatcher": address, "prefetch_batches": 1}) for _ in range(count)]
    return {at: process for process, _, at in started}


def collect(pipes, *, until=None):
    """Let trainers train; return what they say once all are through, or all have so many batches or are through."""
    said = {pipe: [] for pipe in pipes}
    running = set(pipes)
    while running:
        ready = wait(list(running), PATIENCE_SECONDS)
        assert ready, "no trainer got a batch, or ended"
        for pipe in ready:
            got = pipe.recv()
            if got is not None:
                said[pipe].append(got)
            if got is None or len(said[pipe]) == until:
                running.discard(pipe)
            else:
                pipe.send("next")
    return [said[pipe] for pipe in pipes]


def numbers_of(*said):
    return sorted(number for batches in said for numbers, _ in batches for number in numbers)


def worker_of_a_split_in_progress(address):
    splits = service_status(address)["rounds"]["0"]
    return next(split["worker"] for split in splits if split["worker"] is not None and not split["done"])


def test_two_workers_and_two_trainers_share_everything(tmp_path, processes):
    _, _, address = processes.start(dispatch, dispatcher_settings(tmp_path))
    start_workers(processes, address, 2)
    settings = {"splits_in_flight": 1, "prefetch_batches": 1}
    pipes = [processes.start(train, address, name, settings)[1] for name in ("a", "b")]
    first = collect(pipes, until=1)  # both have begun before one goes on
    for pipe in pipes:
        pipe.send("next")
    assert numbers_of(*first, *collect(pipes)) == list(range(NUM_RECORDS))
    owners = {split["owner"] for split in service_status(address)["rounds"]["0"]}
    assert owners == {"a", "b"}


def test_a_worker_killed_in_the_middle_of_a_split_loses_and_repeats_nothing(tmp_path, processes):
    _, _, address = processes.start(dispatch, dispatcher_settings(tmp_path, input=LARGE_INPUT))
    workers = start_workers(processes, address, 2)
    source = ServiceSource(address, trainer="one", splits_in_flight=2, prefetch_batches=2)
    numbers = []
    for count, batch in enumerate(source):
        numbers += seqs(batch)
        if count in (50, 500):
            victim = worker_of_a_split_in_progress(address)
            processes.kill(workers.pop(victim))
            workers |= start_workers(processes, address, 1)
    assert sorted(numbers) == list(range(NUM_LARGE))


def test_a_dispatcher_killed_and_started_again_goes_on(tmp_path, processes):
    settings = dispatcher_settings(tmp_path)
    dispatcher, _, address = processes.start(dispatch, settings)
    start_workers(processes, address, 1)
    pipes = [processes.start(train, address, name, {"prefetch_batches": 1})[1] for name in ("a", "b")]
    before = collect(pipes, until=7)
    processes.kill(dispatcher)
    processes.start(dispatch, {**settings, "address": address})
    for pipe in pipes:
        pipe.send("next")
    assert numbers_of(*before, *collect(pipes)) == list(range(NUM_RECORDS))


def test_trainers_killed_and_restored_read_on_from_their_checkpoints(tmp_path, processes):
    _, _, address = processes.start(dispatch, dispatcher_settings(tmp_path))
    start_workers(processes, address, 2)
    started = [processes.start(train, address, name, {"splits_in_flight": 2}) for name in ("a", "b")]
    # Few enough that each gets them from the splits it begins with, however late the other starts.
    said = collect([pipe for _, pipe, _ in started], until=8)
    for process, _, _ in started:
        processes.kill(process)
    # One has a checkpoint after its sixth batch, in the middle of its splits; the other has none at all.
    kept = said[0][:6]
    assert kept[-1][1]["splits"]
    pipes = [processes.start(train, address, "a", {}, kept[-1][1])[1], processes.start(train, address, "b", {})[1]]
    assert numbers_of(kept, *collect(pipes)) == list(range(NUM_RECORDS))
