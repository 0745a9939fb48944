"""A job of real processes for tests."""

import contextlib
import time

from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.data_service import service_status
from monolith.train.job.status import job_status
from monolith.wire import SharedSecret
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS


class Job:
    """Processes of one job; each can be killed and started again."""

    def __init__(self, model_dir, target, *, num_ps=2, num_workers=2, num_events=400, missing_ps=(), **options):
        self.model_dir, self.target, self.num_events = model_dir, target, num_events
        self.common = {"num_ps": num_ps, "num_workers": num_workers, **options}
        self.processes = {}
        for index in range(num_ps + options.get("num_extra_ps", 0) + options.get("num_redundant_ps", 0)):
            if index not in missing_ps:
                self.start("ps", index)
        for index in range(num_workers):
            self.start("worker", index)

    def start(self, server_type, index, **more):
        process = PROCESSES.Process(
            target=self.target,
            args=(str(self.model_dir), self.num_events),
            kwargs={"server_type": server_type, "index": index, **self.common, **more},
            daemon=True,
        )
        process.start()
        self.processes[server_type, index] = process
        return process

    def kill(self, server_type, index):
        process = self.processes[server_type, index]
        process.kill()
        process.join(PATIENCE_SECONDS)

    def check_processes(self):
        """Fail at once if a process has failed: others may wait for it until their limit."""
        codes = {name: process.exitcode for name, process in self.processes.items()}
        assert not {name: code for name, code in codes.items() if code not in (None, 0)}

    def go(self):
        """Let processes go on that hold."""
        (self.model_dir / "go").touch()

    def ends(self):
        """Wait for all processes, and return their exit codes."""
        end = time.monotonic() + PATIENCE_SECONDS
        for process in self.processes.values():
            process.join(max(0.0, end - time.monotonic()))
        return {name: process.exitcode for name, process in self.processes.items()}

    def close(self):
        """Leave no process behind."""
        for process in self.processes.values():
            process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def wait_for_steps(job, index, count):
    """Wait until a worker whose steps are counted in a file has taken so many."""
    path, end = job.model_dir / f"steps-{index}", time.monotonic() + PATIENCE_SECONDS
    while not path.exists() or path.stat().st_size < count:
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_until(condition):
    """Return what a condition gives once that is something."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def status_of(folder):
    """Return the status of the job in a folder; None if nobody answers."""
    try:
        return job_status(folder, timeout_seconds=10)
    except OSError:
        return None


def all_train(folder, shape):
    """Return whether each worker of the job in this shape has trained on something."""
    found = status_of(folder)
    if not found or (len(found["servers"]), len(found["workers"])) != (shape.num_ps, shape.num_workers):
        return False
    return all(one.get("steps_per_second") for one in found["workers"])


def data_workers(model_dir, count, dispatcher=None):
    """Wait until the dispatcher of a job, registered in its folder unless named, has so many data workers.

    Returns their addresses.
    """
    found = set()

    def are_there():
        found.clear()
        address = dispatcher or FilesServiceDiscovery(model_dir / "cluster").query("dispatcher").get(0)
        if address is None:
            return False
        with contextlib.suppress(OSError):
            found.update(service_status(address, secret=SharedSecret.of_folder(model_dir / "cluster"))["workers"])
        return len(found) >= count

    wait_until(are_there)
    return set(found)
