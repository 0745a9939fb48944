"""What listens where, and what a client can do to it before anybody knows who it is."""

import contextlib
import inspect
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from monolith.cli.agent.commands import run as run_agent
from monolith.cli.serve import serve as serve_command
from monolith.cluster.grpc_calls import GrpcServer
from monolith.data_service import DataWorker, DataWorkerConfig, Dispatcher, DispatcherConfig, service_status
from monolith.delta import DeltaReceiver
from monolith.errors import SecretError
from monolith.hooks import RunContext
from monolith.observe.counters import MetricsEndpoint
from monolith.parallel.replicas.replica_server import ReplicaServer
from monolith.protos import agent_service_pb2
from monolith.serving.shards.shard_server import ShardConfig
from monolith.train.config import RunConfig
from monolith.train.controller import ControllerClient, Pause, ServerHook
from monolith.train.controller.requests import ADDRESS_FILE, ServerAddress
from monolith.wire import Client, Message, connect, listen
from monolith.wire.frame import HEADER_BYTES, encode_frame
from tests.data_service.numbered_input import INPUT
from tests.delta.table_target import TableTarget
from tests.patience import PATIENCE_SECONDS
from tests.security.attempts import SECRET, delta, hangs_up, served, tcp, with_total_bytes
from tests.security.page import line
from tests.train.counting_model import train

ROOT = Path(__file__).resolve().parents[2]


@line("predictions over HTTP", "`monolith serve`", "127.0.0.1:8500", "limits; tokens, if given")
def test_where_http_listens():
    options = inspect.signature(serve_command).parameters
    assert (options["host"].default, options["port"].default) == ("127.0.0.1", 8500)


@line("deltas", "`monolith serve --sync-address`", "not opened", "shared secret, or certificates")
def test_where_deltas_are_taken():
    assert inspect.signature(serve_command).parameters["sync_address"].default is None
    with pytest.raises(ValueError, match="could replace the model"):
        DeltaReceiver(TableTarget(), plan_hash=1, generation=1, sequence=1).listen("127.0.0.1:0")


@line(
    "controller of a run",
    "`--enable-controller`",
    "127.0.0.1, a free port",
    "a secret of its own in the model's folder",
)
@line(
    "a stranger pauses a run, or asks how far it is", "refused; the secret is in a file of mode 600 and is never sent"
)
def test_the_controller_answers_only_those_who_can_read_its_file(tmp_path):
    hook = ServerHook(tmp_path)
    context = RunContext(model=None, tables=None, pause=Pause())
    hook.after_create_session(context)
    try:
        assert stat.S_IMODE((tmp_path / ADDRESS_FILE).stat().st_mode) == 0o600
        where = ServerAddress.read(tmp_path)
        assert re.fullmatch(r"127\.0\.0\.1:\d+", where.address)
        for request in (1, 5):
            with pytest.raises(SecretError), Client(where.address) as stranger:
                stranger.request(Message(type=request), PATIENCE_SECONDS)
        with ControllerClient(tmp_path) as ours:
            assert ours.get_block_status() == ([], [0])
            ours.stop_training()  # which would be refused if the stranger had been let in
    finally:
        hook.end(context)


@line(
    "rows and deltas of a shard",
    "`monolith serve-shard`, `monolith agent`",
    "127.0.0.1, a free port",
    "shared secret, or certificates",
)
def test_where_the_rows_of_a_shard_are_read(tmp_path):
    assert ShardConfig(export_base=tmp_path, shard=0).listen == "127.0.0.1:0"
    with pytest.raises(ValueError, match="secret"):
        ReplicaServer()
    with ReplicaServer(secret=SECRET) as server:
        assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", str(server.address))
        with pytest.raises(SecretError), Client(server.address) as stranger:
            stranger.request(Message(type=1), PATIENCE_SECONDS)


@line(
    "an agent's gRPC",
    "`monolith agent run --grpc-port`",
    "not opened",
    "127.0.0.1 alone; addresses can be read, nothing more",
)
def test_an_agent_answers_questions_of_this_machine_alone():
    assert inspect.signature(run_agent).parameters["grpc_port"].default is None
    service = agent_service_pb2.DESCRIPTOR.services_by_name["AgentService"]
    methods = [method.name for method in service.methods]
    assert sorted(methods) == ["GetReplicas", "GetResource", "HeartBeat"]
    with GrpcServer(service, dict.fromkeys(methods, lambda request: request)) as server:
        port = int(server.address.rpartition(":")[2])
        assert server.address == f"127.0.0.1:{port}"
        # Another address of this machine, which a server at all addresses would have.
        with socket.socket() as elsewhere:
            assert elsewhere.connect_ex(("127.0.0.2", port)) != 0


@line("counters of a run", "`--metrics-port`", "not opened", "127.0.0.1 alone; they can be read, nothing more")
def test_counters_can_only_be_read():
    assert RunConfig().metrics_port == 0
    endpoint = MetricsEndpoint(0)
    try:
        assert endpoint._server.server_address[0] == "127.0.0.1"
        url = f"http://127.0.0.1:{endpoint.port}/metrics"
        assert httpx.get(url, timeout=PATIENCE_SECONDS).status_code == 200
        assert {
            httpx.request(method, url, timeout=PATIENCE_SECONDS).status_code for method in ("PUT", "DELETE", "PATCH")
        } <= {405, 501}
    finally:
        endpoint.close()


def dispatcher_settings(folder: Path, **changes: Any) -> DispatcherConfig:
    fields = {"input": INPUT, "num_splits": 2, "state_path": str(folder), "address": "127.0.0.1:0", **changes}
    return DispatcherConfig(**fields)


@line("dispatcher of a data service", "`monolith data-service dispatcher`", "127.0.0.1:7100", "certificates, if given")
def test_where_a_dispatcher_listens(tmp_path):
    assert DispatcherConfig(input=INPUT, num_splits=1, state_path=str(tmp_path)).address == "127.0.0.1:7100"


@line("worker of a data service", "`monolith data-service worker`", "127.0.0.1, a free port", "certificates, if given")
def test_where_a_worker_listens(tmp_path):
    with Dispatcher(dispatcher_settings(tmp_path)) as dispatcher:
        with DataWorker(DataWorkerConfig(dispatcher=dispatcher.address)) as worker:
            assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", worker.address)


@line("`import monolith`, or a run with default settings", "opens no port")
def test_a_run_opens_no_port(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("a port was opened")

    monkeypatch.setattr(socket.socket, "listen", refuse)
    assert train(tmp_path, events=8).global_step == 2
    program = "import socket; socket.socket.listen = None; import monolith"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=PATIENCE_SECONDS)


@line(
    "deltas or data service at an address of other machines, without certificates",
    "refused when it starts; a secret is not enough",
)
def test_other_machines_need_certificates(tmp_path):
    with pytest.raises(ValueError, match="without TLS"), served("0.0.0.0:0", secret=SECRET):
        pass
    with pytest.raises(ValueError, match="without TLS"):
        Dispatcher(dispatcher_settings(tmp_path, address="0.0.0.0:0"))
    with Dispatcher(dispatcher_settings(tmp_path)) as dispatcher, pytest.raises(ValueError, match="without TLS"):
        DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, address="0.0.0.0:0"))


@line(
    "300 silent connections to any of these ports but HTTP's and the counters'",
    "known peers are answered, new ones let in; the silent ones lose their places",
)
def test_silent_connections_lock_nobody_out(tmp_path):
    with contextlib.ExitStack() as cleanup:
        here = cleanup.enter_context(served(secret=SECRET))
        known = cleanup.enter_context(connect(here.address, secret=SECRET))
        silent = [cleanup.enter_context(here.raw()) for _ in range(300)]
        assert known.request(delta(), PATIENCE_SECONDS).meta["status"] == "ok"
        new = cleanup.enter_context(connect(here.address, 30, secret=SECRET))
        assert new.request(delta(sequence=12), PATIENCE_SECONDS).meta["status"] == "ok"
        assert hangs_up(silent[0])
        dispatcher = cleanup.enter_context(Dispatcher(dispatcher_settings(tmp_path)))
        host, _, port = dispatcher.address.partition(":")
        for _ in range(300):
            cleanup.enter_context(socket.create_connection((host, int(port))))
        assert service_status(dispatcher.address, timeout_seconds=30)["input"] == INPUT


@line("a frame that is begun and never finished", "the connection ends after 60 s; others do not wait")
def test_unfinished_frames_end():
    assert inspect.signature(listen).parameters["frame_timeout_seconds"].default == 60
    frame = b"".join(encode_frame(Message(type=1), request_id=1))
    with listen("127.0.0.1:0", lambda message: message, frame_timeout_seconds=0.2) as server:
        for length in (1, HEADER_BYTES - 1, HEADER_BYTES, len(frame) - 1):
            with tcp(server.address) as sock:
                sock.sendall(frame[:length])
                with connect(server.address) as other:
                    assert other.request(Message(type=1), PATIENCE_SECONDS).type == 1
                assert hangs_up(sock)


@line("a header that promises a gigabyte", "takes no memory until the bytes come")
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_promises_take_no_memory():
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    promise = with_total_bytes(b"".join(encode_frame(Message(type=1))), 1 << 30)
    with listen("127.0.0.1:0", lambda message: message) as server, contextlib.ExitStack() as cleanup:
        before = resident_bytes()
        for _ in range(8):
            cleanup.enter_context(tcp(server.address)).sendall(promise)
        with connect(server.address) as other:
            assert other.request(Message(type=1), PATIENCE_SECONDS).type == 1
        assert resident_bytes() - before < 100 << 20
