"""Jobs with a dispatcher and data workers of their own, some of which are killed."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import monolith as mono
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.data_service import service_status
from monolith.train.config import RunnerConfig
from monolith.train.job.place import place_of
from monolith.wire import SharedSecret
from tests.train.job.counting_job import BATCH, Counting, config_of, counted, expected, take_part
from tests.train.job.running_job import Job, wait_for_steps
from tests.train.job.three_doors import HELD_AFTER, held_part

ROOT = Path(__file__).resolve().parents[3]
EVENTS = 640


def wait_until(condition):
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def data_workers(model_dir, count):
    """Wait until the dispatcher of a job has so many data workers; return their addresses."""
    found = set()

    def are_there():
        address = FilesServiceDiscovery(model_dir / "cluster").query("dispatcher").get(0)
        if address is None:
            return False
        with contextlib.suppress(OSError):
            found.clear()
            found.update(service_status(address, secret=SharedSecret.of_folder(model_dir / "cluster"))["workers"])
        return len(found) >= count

    wait_until(are_there)
    return set(found)


def check_exact(model_dir, num_events):
    rows, batches, step = counted(model_dir)
    assert rows == expected(num_events)
    assert batches == step == num_events // BATCH


@pytest.mark.services
@pytest.mark.timeout(240)
@pytest.mark.parametrize("shared", [False, True], ids=["parts", "shared"])
def test_every_event_counts_once_whoever_is_killed(tmp_path, shared):
    more = {"use_dataservice": True, "enable_dynamic_sharding": shared}
    with Job(tmp_path, held_part, num_ps=1, num_events=EVENTS, **more) as job:
        for role in (("dispatcher", 0), ("dsworker", 0), ("dsworker", 1)):
            job.start(*role)
        for index in range(2):
            wait_for_steps(job, index, HELD_AFTER)  # then they wait for the file `go`
        before = data_workers(tmp_path, 2)
        for role in (("dsworker", 0), ("dispatcher", 0), ("worker", 1)):
            job.kill(*role)
            job.start(*role)
        # A data worker that starts after the end of the job would wait for another job.
        wait_until(lambda: len(data_workers(tmp_path, 2) - before) == 1)
        (tmp_path / "go").touch()
        assert set(job.ends(150).values()) == {0}
    check_exact(tmp_path, EVENTS)


@pytest.mark.services
@pytest.mark.timeout(180)
def test_launch_starts_the_data_service_too(tmp_path):
    command = [sys.executable, "-m", "monolith", "launch", "tests.train.job.counting_job:Counting"]
    command += ["--params", json.dumps({"events": EVENTS}), "--model-dir", str(tmp_path), "--num-workers", "2"]
    command += ["--num-dsworkers", "1", "--num-extra-dsworker-on-gpu-worker", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = {path.name for path in (tmp_path / "logs").iterdir()}
    assert logs == {"ps-0.log", "dispatcher.log", "dsworker-0.log", "chief.log", "worker-1.log"}
    assert "[dispatcher] The chief ended the job." in done.stdout
    check_exact(tmp_path, EVENTS)


@pytest.mark.timeout(120)
def test_a_whole_job_in_threads(tmp_path):
    roles = [("ps", 0), ("dispatcher", 0), ("dsworker", 0)]
    common = {"num_ps": 1, "num_workers": 1, "use_dataservice": True, "num_extra_dsworker_on_gpu_worker": 1}

    def be(server_type, index):
        take_part(str(tmp_path), 80, server_type=server_type, index=index, **common)

    threads = [threading.Thread(target=be, args=role) for role in roles]
    for thread in threads:
        thread.start()
    data_workers(tmp_path, 1)
    be("worker", 0)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    check_exact(tmp_path, 80)
    assert not FilesServiceDiscovery(tmp_path / "cluster").query("dispatcher")


def test_a_dispatcher_that_is_missing_is_waited_for(tmp_path):
    config = config_of(tmp_path, num_ps=1, use_dataservice=True, session_creation_timeout_secs=0)
    with pytest.raises(TimeoutError, match="waited 0 seconds for the dispatcher of its data service .*not registered"):
        mono.Estimator(Counting, config, params={"events": 8}).train()


def test_there_is_one_dispatcher(tmp_path):
    config = config_of(tmp_path, num_ps=1, server_type="dispatcher", index=1)
    with pytest.raises(ValueError, match="index=1: there is no such dispatcher, a job has one"):
        mono.Estimator(Counting, config, params={"events": 8}).train()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"enable_dynamic_sharding": True}, "enable_dynamic_sharding needs a data service.*--num-dsworkers"),
        ({"num_extra_dsworker_on_gpu_worker": 1}, "num_extra_dsworker_on_gpu_worker needs a data service"),
        ({"num_extra_dsworker_on_gpu_worker": -1}, "must be at least 0, got -1"),
        ({"max_task_num_per_worker": 0}, "max_task_num_per_worker must be at least 1, got 0"),
        ({"num_ps": 0, "use_dataservice": True}, "set data_service_dispatcher to its address"),
        (
            {
                "num_ps": 0,
                "use_dataservice": True,
                "data_service_dispatcher": "127.0.0.1:1",
                "num_extra_dsworker_on_gpu_worker": 1,
            },
            "num_extra_dsworker_on_gpu_worker=1 is for jobs with parameter servers",
        ),
    ],
)
def test_settings_without_a_service_are_refused(tmp_path, settings, words):
    config = config_of(tmp_path, **{"num_ps": 1, **settings})
    with pytest.raises(ValueError, match=words):
        mono.Estimator(Counting, config, params={"events": 8}).train()


def test_a_list_says_where_the_data_service_is(tmp_path):
    listed = "static:ps=h1:71;worker=h0:70;dispatcher=h2:72;dsworker=h3:73,h4:74"
    place = place_of(RunnerConfig(model_dir=tmp_path, discovery=listed), None)
    assert place.listen_at("dispatcher", 0) == "h2:72"
    assert [place.listen_at("dsworker", index) for index in range(2)] == ["h3:73", "h4:74"]
    config = RunnerConfig(model_dir=tmp_path, discovery=listed, server_type="dsworker", index=1)
    assert mono.Estimator(Counting, config, params={"events": 8}).config.use_dataservice
