"""Jobs with a dispatcher and data workers of their own, some of which are killed."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import monolith as mono
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.data.parts import PartSource
from monolith.data_service import DataWorker, DataWorkerConfig, Dispatcher, DispatcherConfig, ServiceSource
from monolith.train import job_config as job_config_module
from monolith.train.config import RunnerConfig
from monolith.train.job import run_job as run_job_module
from monolith.train.job.data_roles.dispatcher_role import INPUT, STATE_FOLDER
from monolith.train.job.place import place_of
from monolith.train.job.scale.shape import JobShape
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, Counting, config_of, counted, events_source, expected, take_part
from tests.train.job.running_job import Job, all_train, data_workers, wait_for_steps, wait_until

ROOT = Path(__file__).resolve().parents[3]
EVENTS = 640
HELD_AFTER = 7


def check_exact(model_dir, num_events):
    rows, batches, step = counted(model_dir)
    assert rows == expected(num_events)
    assert batches == step == num_events // BATCH


@pytest.mark.services
@pytest.mark.parametrize("shared", [False, True], ids=["parts", "shared"])
def test_every_event_counts_once_whoever_is_killed(tmp_path, shared):
    more = {"use_dataservice": True, "enable_dynamic_sharding": shared, "seconds": 0.001, "holds_after": HELD_AFTER}
    with Job(tmp_path, take_part, num_ps=1, num_events=EVENTS, **more) as job:
        for role in (("dispatcher", 0), ("dsworker", 0), ("dsworker", 1)):
            job.start(*role)
        for index in range(2):
            wait_for_steps(job, index, HELD_AFTER)  # then they wait for the file `go`
        before = data_workers(tmp_path, 2)
        for role in (("dsworker", 0), ("dispatcher", 0), ("worker", 1)):
            job.kill(*role)
            job.start(*role)
        # A data worker that starts after the end of the job would wait for another job. The one that was not killed
        # listens elsewhere too if the new dispatcher came late.
        wait_until(lambda: data_workers(tmp_path, 2) - before)
        job.go()
        assert set(job.ends().values()) == {0}
    check_exact(tmp_path, EVENTS)


def scale(model_dir, *numbers):
    command = [sys.executable, "-m", "monolith", "scale", str(model_dir), *numbers]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


@pytest.mark.services
def test_launch_starts_the_data_service_too_and_scales_the_job(tmp_path):
    hurry = tmp_path / "hurry"
    params = {"events": EVENTS, "seconds": 2.0, "hurry": str(hurry)}
    command = [sys.executable, "-m", "monolith", "launch", "tests.train.job.counting_job:Counting"]
    command += ["--params", json.dumps(params), "--model-dir", str(tmp_path), "--num-workers", "2"]
    command += ["--num-dsworkers", "1", "--num-extra-dsworker-on-gpu-worker", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (tmp_path / "said").open("wb") as said:
        launched = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: all_train(tmp_path, JobShape(num_ps=1, num_workers=2)))
        scaled = scale(tmp_path, "--num-ps", "2", "--num-workers", "3")
        assert scaled.returncode == 0, scaled.stderr
        assert "it goes on with num_ps=2 and num_workers=3" in scaled.stdout
        again = scale(tmp_path, "--num-workers", "3")
        assert again.returncode == 2
        assert "has num_ps=2 and num_workers=3 already" in again.stderr
        hurry.touch()
        status = launched.wait(PATIENCE_SECONDS)
    finally:
        launched.kill()
        launched.wait()
    output = (tmp_path / "said").read_text()
    assert status == 0, output
    logs = {path.name for path in (tmp_path / "logs").iterdir()}
    names = {"ps-0", "ps-1", "dispatcher", "dsworker-0", "chief", "worker-1", "worker-2"}
    assert logs == {f"{name}.log" for name in names}
    assert output.count("[dispatcher] The chief ended the job.") == 2
    check_exact(tmp_path, EVENTS)


def read_with_two_workers(model_dir):
    """Leave what a job of two workers leaves that is lost before its first snapshot."""
    state, at = str(model_dir / STATE_FOLDER), {"address": "127.0.0.1:0"}
    with (
        Dispatcher(DispatcherConfig(input=INPUT, num_splits=16, state_path=state, **at)) as dispatcher,
        DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, **at), lambda: events_source(80)),
    ):
        part = PartSource(ServiceSource(dispatcher.address, trainer="trainer-Counting"), 2, 1)
        assert sum(1 for _ in part)


def test_a_whole_job_in_threads_after_one_of_two_workers_that_saved_nothing(tmp_path):
    read_with_two_workers(tmp_path)
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
        thread.join(PATIENCE_SECONDS)
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


@pytest.mark.parametrize("role", ["dispatcher", "dsworker"])
def test_a_process_that_reads_data_makes_room_for_its_connections(tmp_path, monkeypatch, role):
    did = []
    monkeypatch.setattr(job_config_module, "make_room_for_files", lambda count, *, reason: did.append(count))
    monkeypatch.setattr(run_job_module, f"run_{role}", lambda *_: did.append(role))
    config = config_of(tmp_path, server_type=role, num_ps=1, num_workers=900)
    run_job_module.run_job(Counting({"events": BATCH}), config)
    assert did[0] > 900 and did[1] == role
