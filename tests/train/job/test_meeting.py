"""Whole jobs whose processes find each other in every way: the same rows, also while ZooKeeper is in trouble."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from monolith.cluster.discovery.zookeeper.client import connected_client
from tests.cluster.discovery.zookeeper_server import ZooKeeperServer, require_zookeeper
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, expected
from tests.train.job.running_job import Job
from tests.train.job.same_rows import ROW_EVENTS, ROW_MODEL, rows_of, rows_of_one_process
from tests.train.job.three_doors import by_door, watched_part

ROOT = Path(__file__).resolve().parent.parent.parent.parent
HELD_AFTER = 7
TRAIN = [sys.executable, "-m", "monolith", "train", ROW_MODEL]
FLAGS = [
    "--params",
    f'{{"events": {ROW_EVENTS}}}',
    "--num-ps",
    "1",
    "--num-workers",
    "1",
    "--session-creation-timeout-secs=300",
]


def check_exact(model_dir, num_events):
    rows, batches, step = counted(model_dir)
    assert rows == expected(num_events)
    assert batches == step == -(-num_events // BATCH)


def test_a_job_through_three_doors_and_with_clocks_that_differ(tmp_path):
    one, two, three = (f"127.0.0.1:{free_port()}" for _ in range(3))
    addresses = {"ps": [one], "worker": [two, three]}
    with Job(tmp_path, by_door, num_ps=1, num_workers=2, num_events=83, addresses=addresses) as job:
        assert set(job.ends().values()) == {0}
    check_exact(tmp_path, 83)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    require_zookeeper()
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()


def run(*commands):
    """Run processes side by side to their ends."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) for command in commands]
    try:
        outputs = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(started), "\n".join(outputs)


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """What a job of `monolith launch` leaves, which is what one process leaves."""
    folder = tmp_path_factory.mktemp("launched")
    launch = [*TRAIN[:3], "launch", *TRAIN[4:], *FLAGS]
    run([*launch, "--model-dir", str(folder)])
    found = rows_of(folder)
    assert found == rows_of_one_process(tmp_path_factory.mktemp("one"))
    return found


@pytest.mark.services
def test_processes_that_meet_in_zookeeper_end_with_the_same_rows(tmp_path, launched, zookeeper):
    common = [*TRAIN, *FLAGS, "--model-dir", str(tmp_path), "--discovery", f"zk:{zookeeper.address}/same-rows"]
    run([*common, "--server-type", "chief"], [*common, "--server-type", "ps", "--index", "0"])
    assert rows_of(tmp_path) == launched


@pytest.mark.services
def test_ranks_of_mpirun_end_with_the_same_rows(tmp_path, launched):
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun: install Debian's package openmpi-bin (`make test-services` does)")
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    run([*mpirun, *TRAIN, *FLAGS, "--model-dir", str(tmp_path)])
    assert rows_of(tmp_path) == launched


def wait_until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def sessions_of(address, job):
    """The session of each registered process."""
    client = connected_client(address)
    try:
        path = f"/monolith/{job}"
        return {name: client.exists(f"{path}/{name}").ephemeralOwner for name in client.get_children(path)}
    finally:
        client.stop()
        client.close()


def restart(zookeeper, model_dir, job):
    zookeeper.stop()
    zookeeper.start()


def expire(zookeeper, model_dir, job):
    before = sessions_of(zookeeper.address, job)
    (model_dir / "expire").touch()

    def all_are_new():
        try:
            now = sessions_of(zookeeper.address, job)
        except AttributeError:  # a node vanished meanwhile
            return False
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    wait_until(all_are_new)
    (model_dir / "expire").unlink()


@pytest.mark.services
@pytest.mark.parametrize("trouble", [restart, expire])
def test_a_job_goes_on_while_zookeeper_is_in_trouble(tmp_path, zookeeper, trouble):
    where = f"zk:{zookeeper.address}/{trouble.__name__}"
    holds = {"seconds": 0.001, "holds_after": HELD_AFTER}
    with Job(tmp_path, watched_part, num_ps=2, num_events=480, discovery=where, **holds) as job:
        steps = [tmp_path / f"steps-{index}" for index in range(2)]
        wait_until(lambda: all(path.exists() and path.stat().st_size >= HELD_AFTER for path in steps))
        trouble(zookeeper, tmp_path, trouble.__name__)
        job.kill("worker", 1)  # the next one finds the chief again, where it registered
        job.start("worker", 1)
        job.kill("ps", 0)  # and the chief finds the next server, of a registration that is not the old one's
        job.start("ps", 0)
        job.go()
        assert set(job.ends().values()) == {0}
    check_exact(tmp_path, 480)
