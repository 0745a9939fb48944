"""A job of evaluation where another job trains: neither meets the processes of the other."""

import json
import logging
import shutil
import signal
import threading

import pytest

import monolith as mono
from monolith.checkpoint import list_snapshots
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.errors import RemoteError
from monolith.native_training.cpu_training import distributed_train
from monolith.parallel.coordination import Coordinator, JobOverError, Opening, WorkerLink
from monolith.parallel.coordination.messages import CoordinationRequest, ask
from monolith.train.config import DistributedCpuTrainingConfig, RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.job import evaluate_job as evaluate_module
from monolith.train.job.evaluate_job import APART, evaluate_job, evaluation_settings
from monolith.train.job.parameter_server import run_ps
from monolith.train.job.place import PS, WORKER, common_settings, place_of
from monolith.train.roles.server_choice import ServerChoice
from monolith.wire import Address, Client, SharedSecret
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, Counting, config_of, events_source, look, take_part
from tests.train.job.eval_job import evaluating_part, held_part
from tests.train.job.running_job import Job, wait_for_steps, wait_until
from tests.train.job.test_jobs import check_exact
from tests.train.job.test_place import Told

HERE, THERE = Address("127.0.0.1", 7001), Address("127.0.0.1", 7002)


@pytest.mark.parametrize("has_registry", [False, True])
def test_processes_that_evaluate_are_not_found_by_those_that_train(tmp_path, has_registry):
    config, told = RunnerConfig(model_dir=tmp_path), Told() if has_registry else None
    with place_of(config, told) as trains, place_of(config, told, apart=APART) as evaluates:
        trains.register(PS, 0, HERE)
        evaluates.register(PS, 0, THERE)
        evaluates.register(WORKER, 0, THERE)
        assert (trains.discovery.query(PS), trains.discovery.query(WORKER)) == ({0: str(HERE)}, {})
        assert evaluates.discovery.query(PS) == evaluates.discovery.query(WORKER) == {0: str(THERE)}
        assert trains.secret == evaluates.secret
        assert FilesServiceDiscovery(tmp_path / "cluster").query(WORKER) == {}, "`monolith status` asks who trains"
        evaluates.deregister(PS, 0, THERE)
        assert (trains.discovery.query(PS), evaluates.discovery.query(PS)) == ({0: str(HERE)}, {})


def test_the_choice_of_servers_to_evaluate_is_not_that_to_train(tmp_path):
    for uuid in ("", "a/job"):
        config = RunnerConfig(model_dir=tmp_path, uuid=uuid)
        choices = [
            ServerChoice.of(config, place_of(config, None, apart=apart), job_config(config).call_retry, apart=apart)
            for apart in ("", APART)
        ]
        assert choices[0].path != choices[1].path


def test_a_chief_that_trains_takes_no_worker_that_evaluates():
    """They may meet by a list of addresses, which has no other names."""
    config, secret = RunnerConfig(num_ps=1, num_workers=2), SharedSecret.new("a job")
    trains, limit = common_settings(config), {"timeout_seconds": PATIENCE_SECONDS}
    with Coordinator(2, "127.0.0.1:0", secret=secret) as coordinator:
        coordinator.open(Opening(generation=1, servers=[], plan_hash=7, settings=trains, positions={}))
        with WorkerLink(str(coordinator.address), 1, secret=secret) as link:
            link.join(plan_hash=7, settings=trains, **limit)
            with (
                WorkerLink(str(coordinator.address), 1, secret=secret) as other,
                pytest.raises(RemoteError, match="worker 1 has evaluates=True"),
            ):
                other.join(plan_hash=7, settings=evaluation_settings(config), **limit)
            link.check()  # nobody has taken its place


class Found:
    """Says which snapshot is the newest: another one each time it is asked, as a job that trains keeps only a few."""

    def __init__(self, paths):
        self.first, self._paths = paths[0], iter(paths)

    def __call__(self):
        return next(self._paths)


def test_the_snapshot_is_chosen_when_all_servers_are_there(tmp_path):
    model = Counting({"events": 5 * BATCH})
    mono.Estimator(model, config_of(tmp_path, save_checkpoints_steps=1, checkpoints_max_to_keep=9)).train()
    found = Found([path for path in list_snapshots(tmp_path) if path.name in ("model.ckpt-2", "model.ckpt-5")])
    config = config_of(tmp_path, num_ps=1, num_workers=1)
    place = place_of(config, None, apart=APART)
    server = threading.Thread(target=run_ps, args=(place, job_config(config)), daemon=True)
    server.start()
    assert evaluate_job(model, config, found, events_source(80))["global_step"] == 5
    server.join(PATIENCE_SECONDS)
    assert not server.is_alive()


class Background(threading.Thread):
    """A call in a thread; `ended` is what it raised, or None."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self._call, self._error = call, None
        self.start()

    def run(self):
        try:
            self._call()
        except Exception as error:  # noqa: BLE001  looked at by the test
            self._error = error

    def ended(self):
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()
        return self._error


def a_server(config):
    return Background(lambda: run_ps(place_of(config, None, apart=APART), job_config(config)))


def trained(folder):
    model = Counting({"events": 5 * BATCH})
    mono.Estimator(model, config_of(folder)).train()
    return model, list_snapshots(folder)[-1]


def await_worker(folder, state):
    """Wait, in the process of a chief that evaluates, until its worker 1 is in a state."""

    def is_so():
        address = FilesServiceDiscovery(folder / "cluster" / APART).query(WORKER)[0]
        with Client(address, secret=SharedSecret.of_folder(folder / "cluster")) as client:
            found = client.request(ask(CoordinationRequest.STATUS), PATIENCE_SECONDS).meta
        return found["workers"][1].get("state") == state

    wait_until(is_so)


@pytest.mark.parametrize("moment", ["restoring", "evaluating"])
def test_a_chief_that_fails_ends_servers_and_workers(tmp_path, monkeypatch, moment):
    model, path = trained(tmp_path)
    shape = {"num_ps": 1, "num_workers": 2}
    server, asked = a_server(config_of(tmp_path, **shape)), []

    def find():
        asked.append(1)
        if moment == "restoring" and len(asked) > 1:
            await_worker(tmp_path, "waiting")
            raise FileNotFoundError("the job that trains has removed the snapshot")
        return path

    def evaluated(model, config, *_, **__):
        if config.index == 0:
            await_worker(tmp_path, "finished")
            raise OSError("the disk is gone")
        return {}

    monkeypatch.setattr(evaluate_module, "_evaluated", evaluated)
    worker_config = config_of(tmp_path, index=1, **shape)
    worker = Background(lambda: evaluate_job(model, worker_config, lambda: path, events_source(80)))
    with pytest.raises(OSError, match={"restoring": "has removed", "evaluating": "is gone"}[moment]):
        evaluate_job(model, config_of(tmp_path, **shape), find, events_source(80))
    assert server.ended() is None
    error = worker.ended()
    if moment == "restoring":
        assert isinstance(error, JobOverError)
        assert "the chief ended the evaluation before this worker began" in str(error)
    else:
        assert error is None


def test_workers_that_are_late_are_named_and_servers_end(tmp_path, caplog):
    model, path = trained(tmp_path)
    config = config_of(tmp_path, num_ps=1, num_workers=2, chief_timeout_secs=0)
    server = a_server(config)
    with caplog.at_level(logging.WARNING):
        assert evaluate_job(model, config, lambda: path, events_source(80))["global_step"] == 5
    assert "workers [1] did not finish within 0 s; the servers end now" in caplog.text
    assert server.ended() is None


@pytest.mark.parametrize("case", ["a server is late", "a server is dead"])
def test_sigterm_ends_an_evaluation_with_its_servers(tmp_path, case):
    trained(tmp_path)
    if case == "a server is late":  # with a list, none ever is
        shape = {"num_ps": 1, "num_redundant_ps": 1, "missing_ps": (1,)}
    else:
        ports = {name: [f"127.0.0.1:{free_port()}" for _ in range(count)] for name, count in (("chief", 1), ("ps", 2))}
        shape = {"num_ps": 2, "cluster": ports}
    with Job(tmp_path, held_part, num_events=80, num_workers=1, **shape) as job:
        wait_for_steps(job, 0, 1)
        if case == "a server is dead":
            job.kill("ps", 1)
            del job.processes["ps", 1]
        job.processes["worker", 0].terminate()
        assert job.ends() == {("ps", 0): 0, ("worker", 0): 1}
    assert (tmp_path / "raised-0").read_text().startswith("KeyboardInterrupt")


def test_a_second_interrupt_does_not_keep_servers_from_their_end(tmp_path, monkeypatch):
    model, path = trained(tmp_path)
    config = config_of(tmp_path, num_ps=1, num_workers=1)
    server, end = a_server(config), Coordinator.end

    def evaluated(*_, **__):
        raise KeyboardInterrupt

    def interrupted_end(coordinator, **limit):
        signal.raise_signal(signal.SIGINT)
        end(coordinator, **limit)

    monkeypatch.setattr(evaluate_module, "_evaluated", evaluated)
    monkeypatch.setattr(Coordinator, "end", interrupted_end)
    with pytest.raises(KeyboardInterrupt):
        evaluate_job(model, config, lambda: path, events_source(80))
    assert server.ended() is None


@pytest.mark.parametrize("case", ["the snapshot is gone", "SIGTERM"])
def test_a_chief_does_not_wait_for_a_worker_that_failed(tmp_path, case):
    mono.Estimator(
        Counting({"events": 5 * BATCH}), config_of(tmp_path, save_checkpoints_steps=1, checkpoints_max_to_keep=9)
    ).train()
    newest = list_snapshots(tmp_path)[-1]
    is_gone = case == "the snapshot is gone"
    with Job(tmp_path, held_part, num_events=80, num_ps=1, num_workers=2, joins_late=is_gone) as job:
        wait_for_steps(job, 0, 1)
        if is_gone:
            shutil.rmtree(newest)  # as a job does that trains in the folder and keeps only the newest
        else:
            wait_for_steps(job, 1, 1)
            job.processes["worker", 1].terminate()
        job.go()
        assert job.ends() == {("ps", 0): 0, ("worker", 0): 1, ("worker", 1): 1}
    raised = (tmp_path / "raised-0").read_text()
    assert raised.startswith("WorkerFailedError") and "worker 1 failed: " in raised
    assert (str(newest) if is_gone else "KeyboardInterrupt") in raised


@pytest.mark.parametrize("role", ["dispatcher", "dsworker"])
def test_a_process_of_the_data_service_has_nothing_to_evaluate(tmp_path, role):
    class Discovery(Told):
        server_type, index = role, 0

    config = DistributedCpuTrainingConfig(model_dir=tmp_path, num_ps=1, num_workers=1, mode="eval")
    assert distributed_train(config, Discovery(), Counting({"events": BATCH})) == {}
    assert not (tmp_path / "cluster").exists()


def test_processes_of_a_list_evaluate_through_the_door_of_the_original(tmp_path):
    trained(tmp_path)
    cluster = {
        name: [f"127.0.0.1:{free_port()}" for _ in range(count)]
        for name, count in (("chief", 1), ("worker", 1), ("ps", 2))
    }
    with Job(tmp_path, evaluating_part, num_events=80, num_ps=2, num_workers=2, cluster=cluster) as job:
        assert set(job.ends().values()) == {0}
    found = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("found-*")}
    assert found.pop("found-ps-0") == found.pop("found-ps-1") == {}
    assert set(found) == {"found-chief-0", "found-worker-0"}
    assert {one["global_step"] for one in found.values()} == {5}
    assert sum(one["num_events"] for one in found.values()) == 80


@pytest.mark.services
def test_a_model_is_evaluated_while_a_job_trains_it(tmp_path):
    shape = {"num_ps": 1, "num_redundant_ps": 1, "num_workers": 1, "operation_timeout_in_ms": 60_000}
    with Job(tmp_path, take_part, num_events=480, seconds=0.01, holds_after=50, **shape) as trains:
        wait_for_steps(trains, 0, 50)  # it has ten more batches, and waits
        choice = (tmp_path / "ps_cluster_dir" / "ps_info").read_text()
        with Job(tmp_path, look, num_events=80, steps=3, **shape) as evaluates:
            assert set(evaluates.ends().values()) == {0}
        trains.check_processes()
        assert (tmp_path / "ps_cluster_dir" / "ps_info").read_text() == choice
        trains.go()
        assert set(trains.ends().values()) == {0}
    check_exact(tmp_path, 480)
