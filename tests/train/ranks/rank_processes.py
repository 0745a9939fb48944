"""Ranks of a synchronous run for tests: processes that find each other as those of torchrun do."""

import os
import time
import traceback

import torch

from monolith._core import native
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS


def _rank(job, arguments, environment, reports):
    os.environ.update(environment)
    torch.set_num_threads(1)
    native.set_num_threads(1)
    rank = int(environment["RANK"])
    try:
        reports.put((rank, True, job(*arguments)))
    except BaseException:  # noqa: BLE001  whatever it is, the test prints it
        reports.put((rank, False, traceback.format_exc()))


class Ranks:
    """Processes of one synchronous run; each returns something or fails, and can be killed before."""

    def __init__(self, count, job, *arguments, own=None):
        """Run `job(*arguments, *own[rank])` on every rank."""
        self._reports = PROCESSES.Queue()
        # The launcher holds the store, as torchrun's agent does; it chooses a free port.
        self._store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.processes = []
        for rank in range(count):
            environment = {
                "RANK": str(rank),
                "WORLD_SIZE": str(count),
                "LOCAL_WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self._store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
            given = (*arguments, *(own[rank] if own else ()))
            process = PROCESSES.Process(target=_rank, args=(job, given, environment, self._reports), daemon=True)
            process.start()
            self.processes.append(process)

    def reports(self, count=None):
        """Return (has ended well, what it returned or the traceback) by rank, of all or of the first few that end."""
        found = {}
        for _ in range(count or len(self.processes)):
            rank, is_well, value = self._reports.get(timeout=PATIENCE_SECONDS)
            found[rank] = is_well, value
        return found

    def wait_for_file(self, path):
        """Wait for something that a rank leaves; the test fails if a rank ends before."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not path.exists():
            assert self._reports.empty(), self.reports(1)
            assert time.monotonic() < end
            time.sleep(0.02)

    def results(self):
        """Return what all ranks returned; the test fails with the traceback of one that failed."""
        found = self.reports()
        for rank, (is_well, value) in sorted(found.items()):
            assert is_well, f"rank {rank}: {value}"
        return [found[rank][1] for rank in range(len(self.processes))]

    def close(self):
        for process in self.processes:
            process.join(5)
            process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
