"""What MLPEnv reads from fixed environments, and how a process waits for others."""

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch

from monolith.cluster.discovery import mlp_discovery
from monolith.cluster.discovery.mlp_discovery import MLPServiceDiscovery
from monolith.cluster.platform import mlp_env
from monolith.cluster.platform.mlp_env import MLPEnv
from monolith.errors import RemoteError
from monolith.wire import Message, connect
from tests.patience import PATIENCE_SECONDS

PLAIN = {
    "MLP_FRAMEWORK": "tensorflow",
    "MLP_SSH_PORT": "'22'",
    "MLP_DEBUG_PORT": "8888",
    "MLP_LOG_PATH": '"/logs"',
    "MLP_ENTRYPOINT_DIR": "/entry",
    "MLP_TASK_CMD": "python train.py",
    "MLP_ROLE": "ps",
    "MLP_ROLE_INDEX": "1",
    "MLP_PORT": "2223",
    "MLP_CPU": "8",
    "MLP_GPU": "0",
    "MLP_GPU_TYPE": "none",
    "MLP_MEM": "32Gi",
    "MLP_PS_NUM": "2",
    "MLP_PS_0_PRIMARY_HOST": "10.0.0.1",
    "MLP_PS_0_HOST": "192.168.0.1",
    "MLP_PS_0_PORT": "2222",
    "MLP_PS_1_PRIMARY_HOST": "fd00::2",
    "MLP_PS_1_HOST": "192.168.0.2",
    "MLP_PS_1_PORT": "2223",
    "MLP_PS_ALL_PRIMARY_HOSTS": "10.0.0.1,fd00::2",
    "MLP_PS_ALL_HOSTS": "192.168.0.1,192.168.0.2",
    "MLP_PS_ALL_PRIMARY_ADDRS": "10.0.0.1:2222,[fd00::2]:2223",
    "MLP_WORKER_NUM": "3",
    "MLP_WORKER_GPU_NUM": "8",
    "MLP_WORKER_0_PRIMARY_HOST": "10.0.1.1",
    "MLP_WORKER_0_PORT": "3000",
    "MLP_WORKER_1_PRIMARY_HOST": "10.0.1.2",
    "MLP_WORKER_1_PORT": "3001",
    "MLP_WORKER_2_PRIMARY_HOST": "10.0.1.3",
    "MLP_DISPATCHER_NUM": "1",
    "MLP_DISPATCHER_0_PRIMARY_HOST": "10.0.2.1",
    "MLP_DISPATCHER_0_PORT": "5051",
    "YARN_INET_ADDR": "10.0.0.2",
}
MPI = {
    "MLP_ROLE": "worker",
    "MLP_ROLE_INDEX": "0",
    "MLP_PORT": "3000",
    "MLP_WORKER_NUM": "2",
    "MLP_WORKER_0_PRIMARY_HOST": "10.0.1.1",
    "MLP_WORKER_1_PRIMARY_HOST": "10.0.1.2",
    "MLP_WORKER_0_PORT": "3000",
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "YARN_INET_ADDR": "10.0.1.2",
}


@pytest.fixture
def environment(monkeypatch):
    def set_to(values):
        for name in os.environ:
            if name.startswith(("MLP_", "MPI_", "OMPI_", "CLOUDNATIVE_", "YARN_")):
                monkeypatch.delenv(name)
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    set_to({})
    return set_to


def test_a_plain_environment(environment):
    environment(PLAIN)
    env = MLPEnv()
    assert vars(env) | {"_mlp_env": None} == {
        "_mlp_env": None,
        "_profiler": None,
        "framework": "tensorflow",
        "ssh_port": 22,
        "log_path": "/logs",
        "debug_port": 8888,
        "entrypoint_dir": "/entry",
        "task_cmd": "python train.py",
        "role": "PS",
        "all_roles": {"PS": 2, "WORKER": 3, "DISPATCHER": 1},
        "index": 1,
        "port": 2223,
        "avaiable": True,
        "cpu": 8,
        "gpu": 0,
        "gpu_type": "none",
        "mem": "32Gi",
        "host": "10.0.0.2",
    }
    assert not env.enable_mpi


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda env: env.num_replicas(), 2),
        (lambda env: env.num_replicas("worker"), 3),
        (lambda env: env.num_replicas("chief"), 0),
        (lambda env: env.get_all_host(), "10.0.0.1,fd00::2"),
        (lambda env: env.get_all_host("ps", is_primary=False), "192.168.0.1,192.168.0.2"),
        (lambda env: env.get_all_host("worker"), None),
        (lambda env: env.get_all_addrs(), ["10.0.0.1:2222", "[fd00::2]:2223"]),
        (lambda env: env.get_all_addrs("worker"), []),
        (lambda env: env.get_host(), "fd00::2"),
        (lambda env: env.get_host("ps", 0, is_primary=False), "192.168.0.1"),
        (lambda env: env.get_host("ps", 7), None),
        (lambda env: env.get_port(), 2223),
        (lambda env: env.get_port("worker", 1), 3001),
        (lambda env: env.get_port("worker", 2), 2222),
        (lambda env: env.get_addr(), "[fd00::2]:2223"),
        (lambda env: env.get_addr("worker", 1), "10.0.1.2:3001"),
        (lambda env: env.get_addr("worker", 2), None),
        (lambda env: env.get_addr("chief", 0), None),
        (lambda env: env.dispatcher_addr(), "10.0.2.1:5051"),
        (lambda env: env.dispatcher_target(), "grpc://10.0.2.1:5051"),
        (lambda env: env.queue_device, "/job:ps/task:0/device:CPU:0"),
    ],
)
def test_hosts_ports_and_addresses(environment, call, result):
    environment(PLAIN)
    assert call(MLPEnv()) == result


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda env: (env.enable_mpi, env.index, env.port), (True, 5, 3005)),
        (lambda env: env.all_roles, {"WORKER": 8}),
        (lambda env: env.num_replicas(), 8),
        (lambda env: [env.get_host(index=index) for index in (0, 3, 4, 7)], ["10.0.1.1"] * 2 + ["10.0.1.2"] * 2),
        (lambda env: env.get_port(), 3005),
        (lambda env: env.get_addr(), "10.0.1.2:3005"),
        (lambda env: env.get_addr("worker", 0), "10.0.1.1:3000"),
        (lambda env: env.queue_device, "/job:worker/task:0/device:CPU:0"),
        (lambda env: env.dispatcher_target(), "grpc://localhost:5050"),
    ],
)
def test_workers_that_mpirun_started_count_by_rank(environment, call, result):
    environment(MPI)
    assert call(MLPEnv()) == result


def test_mpi_workers_without_a_port_count_from_the_usual_one(environment):
    environment({name: value for name, value in MPI.items() if name != "MLP_WORKER_0_PORT"})
    assert (MLPEnv().get_port(), MLPEnv().get_addr()) == (2227, None)


def test_a_rank_of_another_role_is_not_an_index(environment):
    environment({**MPI, "MLP_ROLE": "ps", "MLP_ROLE_INDEX": "0"})
    assert (MLPEnv().enable_mpi, MLPEnv().index, MLPEnv().port) == (False, 0, 3000)


def test_an_empty_environment(environment):
    env = MLPEnv()
    assert (env.avaiable, env.role, env.index, env.port, env.all_roles) == (False, "", 0, 0, {})
    assert (env.queue_device, env.dispatcher_target()) == ("/device:CPU:0", "grpc://localhost:5050")
    with pytest.raises(ValueError, match="the platform names no host of WORKER 0"):
        env.wait("worker")


def test_a_number_that_is_none_is_an_error(environment):
    environment({**PLAIN, "MLP_PORT": "http"})
    with pytest.raises(ValueError, match="MLP_PORT must be a whole number, got 'http'"):
        MLPEnv()


def test_waiting_for_a_port(environment, monkeypatch):
    monkeypatch.setattr(mlp_env, "_WAIT_SECONDS", 0.01)
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        port = str(late.getsockname()[1])
        environment({"MLP_WORKER_NUM": "1", "MLP_WORKER_0_PRIMARY_HOST": "127.0.0.1", "MLP_WORKER_0_PORT": port})
        assert not MLPEnv().wait("worker", timeout=0, use_ssh=False)
        with pytest.raises(ValueError, match="MLP_SSH_PORT is not set; pass use_ssh=False"):
            MLPEnv().wait("worker", timeout=0)
        environment({"MLP_WORKER_0_PRIMARY_HOST": "127.0.0.1", "MLP_SSH_PORT": port})
        opening = threading.Timer(0.1, late.listen)
        opening.start()
        assert MLPEnv().wait("worker")
        opening.join()


JOIN = """
from monolith.cluster import alive_check
from monolith.cluster.platform import mlp_env
check = mlp_env.check_port
mlp_env.check_port = lambda host, port, timeout=1: check(host, port, min(timeout, 0.3))
mlp_env._JOIN_SECONDS = mlp_env._WAIT_SECONDS = 0.01
env = mlp_env.MLPEnv()
env.start_profiler(0)
print("joins", flush=True)
env.join(use_ssh=False)
"""


def test_joining_ends_the_process_when_the_port_is_closed():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(4096)  # it connects again and again, and is ended when there is no room
        values = {"MLP_WORKER_0_PRIMARY_HOST": "127.0.0.1", "MLP_WORKER_0_PORT": str(one.getsockname()[1])}
        process = subprocess.Popen(
            [sys.executable, "-c", JOIN], env={**os.environ, **values}, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "joins\n"
        one.accept()[0].close()
        assert process.poll() is None
    try:
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.stdout.close()


class TestDiscovery:
    """MLPServiceDiscovery on a job of two PS and one worker, whose ports are open."""

    @pytest.fixture
    def ports(self, environment):
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ports = [one.getsockname()[1] for one in listeners]
        values = {"MLP_ROLE": "worker", "MLP_PS_NUM": "2", "MLP_WORKER_NUM": "1", "MLP_PORT": str(ports[2])}
        for name, port in zip(("PS_0", "PS_1", "WORKER_0"), ports, strict=True):
            values |= {f"MLP_{name}_PRIMARY_HOST": "127.0.0.1", f"MLP_{name}_PORT": str(port)}
        environment(values)
        yield [f"127.0.0.1:{port}" for port in ports], listeners
        for one in listeners:
            one.close()

    def test_everything_is_known_from_the_start(self, ports):
        (first, second, worker), _ = ports
        with MLPServiceDiscovery() as discovery:
            assert discovery.query_all() == {"ps": {0: first, 1: second}, "worker": {0: worker}, "chief": {}}
            assert (discovery.server_type, discovery.index) == ("worker", 0)

    def test_a_deregistered_process_is_hidden_until_it_registers(self, ports):
        (first, second, worker), _ = ports
        discovery = MLPServiceDiscovery()
        discovery.deregister("ps", 0, first)
        assert discovery.query("ps") == {1: second}
        discovery.register("ps", 0, first)
        assert discovery.query("ps") == {0: first, 1: second}
        discovery.deregister_all()
        assert discovery.query_all() == {"ps": {}, "worker": {}, "chief": {}}
        discovery.register("worker", 0, worker)
        assert discovery.query("worker") == {0: worker}

    @pytest.mark.parametrize(
        ("name", "index", "message"),
        [
            ("dsworker", 0, "the role must be one of ps, worker, chief, got 'dsworker'"),
            ("ps", 2, "ps 2 is not in this job, which has 2 of 'ps'"),
            ("chief", 0, "chief 0 is not in this job, which has 0"),
            ("ps", 1, "ps 1 listens at 127.0.0.1:1, but the platform says 127.0.0.1:"),
        ],
    )
    def test_what_the_platform_does_not_say_is_refused(self, ports, name, index, message):
        with pytest.raises(ValueError, match=message):
            MLPServiceDiscovery().register(name, index, "127.0.0.1:1")

    def test_a_ps_that_does_not_answer_is_left_out_after_the_limit(self, ports, monkeypatch, caplog):
        assert mlp_discovery._PS_PORT_SECONDS == 3600
        (first, second, _), listeners = ports
        monkeypatch.setattr(mlp_discovery, "_PS_PORT_SECONDS", 0.0)
        listeners[0].close()
        discovery = MLPServiceDiscovery()
        assert discovery.query("ps") == {1: second}
        assert f"ps 0 at {first} does not answer and is left out" in caplog.text
        assert discovery.query("ps", skip_port_check=True) == {0: first, 1: second}


class TestProfiler:
    """A process that works is recorded by another thread."""

    @pytest.fixture
    def busy(self):
        stop = threading.Event()

        def work():
            while not stop.wait(0.001):
                torch.ones(8, 8) @ torch.ones(8, 8)

        thread = threading.Thread(target=work)
        thread.start()
        yield
        stop.set()
        thread.join()

    @pytest.fixture
    def env(self, environment):
        environment({"MLP_DSWORKER_NUM": "1", "MLP_DSWORKER_0_PRIMARY_HOST": "127.0.0.1"})
        env = MLPEnv()
        yield env
        env.stop_profiler()

    def test_a_trace_of_all_threads_arrives(self, env, busy, tmp_path, monkeypatch):
        monkeypatch.setenv("TENSORBOARD_LOG_PATH", str(tmp_path / "logs"))
        address = env.start_profiler(0)
        assert env.start_profiler(0) == address
        (path,) = env.profiler_trace(delay_ms=200, port=int(address.rpartition(":")[2]))
        assert path.startswith(f"{tmp_path}/logs/dsworker-0.")
        assert path.endswith(".pt.trace.json.gz")
        names = {event.get("name") for event in json.loads(gzip.open(path).read())["traceEvents"]}
        assert "aten::mm" in names
        env.stop_profiler()
        with pytest.raises(ConnectionError):
            env.profiler_trace(delay_ms=10, port=int(address.rpartition(":")[2]))

    def test_one_recording_at_a_time_and_none_without_an_end(self, env):
        address = env.start_profiler(0)
        with connect(address) as client, connect(address) as second:
            for wrong in (0, -1, 10**9, "x", None):
                with pytest.raises(RemoteError, match="a profile takes 1 to 600000 milliseconds"):
                    client.request(Message(type=1, meta={"duration_ms": wrong}))
            recording = threading.Thread(target=client.request, args=(Message(type=1, meta={"duration_ms": 500}),))
            recording.start()
            end = time.monotonic() + PATIENCE_SECONDS
            while not env._profiler._busy.locked() and time.monotonic() < end:
                time.sleep(0.001)
            with pytest.raises(RemoteError, match="being recorded already"):
                second.request(Message(type=1, meta={"duration_ms": 1}))
            recording.join()

    def test_a_role_without_hosts_is_an_error(self, env):
        with pytest.raises(ValueError, match="no process to profile: .*worker"):
            env.profiler_trace("worker")
