"""Requests to the application master, against a real gRPC server at a Unix socket."""

import logging
import threading
from concurrent import futures

import grpc
import pytest

import monolith as mono
from monolith.cluster import grpc_calls
from monolith.cluster.platform import primus
from monolith.cluster.platform.app_master import app_master_learns_the_end
from monolith.cluster.platform.local_host import get_local_host
from monolith.model.zoo.movie_ranking import MovieRanking
from monolith.parallel.coordination.messages import CoordinationRequest, ask
from monolith.protos import primus_am_service_pb2 as pb2
from monolith.train.config import RunnerConfig
from monolith.train.job.status import chief_client
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import Counting, config_of, take_part

State = pb2.CreateSavepointStatusResponse.CreateSavepointState
SERVICE = "primus.AppMasterService"


class AppMaster:
    """A server whose answers a test sets; it keeps the requests and how long each client would wait."""

    def __init__(self, path):
        self.requests, self.patience, self.answers = [], [], {}
        handlers = {
            method.name: grpc.unary_unary_rpc_method_handler(
                self._answer(method.name),
                request_deserializer=getattr(pb2, method.input_type.name).FromString,
                response_serializer=getattr(pb2, method.output_type.name).SerializeToString,
            )
            for method in pb2.DESCRIPTOR.services_by_name["AppMasterService"].methods
        }
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self.server.add_insecure_port(f"unix:{path}")
        self.server.start()

    def _answer(self, name):
        def answer(request, context):
            self.requests.append(request)
            self.patience.append(context.time_remaining())
            if name not in self.answers:
                context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            return self.answers[name].pop(0)

        return answer


@pytest.fixture
def app_master(tmp_path, monkeypatch):
    # A short path: that of a Unix socket has 107 bytes at most.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIMUS_AM_RPC_HOST", "unix")
    monkeypatch.setenv("PRIMUS_AM_RPC_PORT", "am.sock")
    monkeypatch.setattr(grpc_calls, "_CHANNEL_MAP", {})
    monkeypatch.setattr(primus, "_POLL_SECONDS", 0.01)
    master = AppMaster("am.sock")
    yield master
    for channel in grpc_calls._CHANNEL_MAP.values():
        channel.close()
    master.server.stop(None).wait()


@pytest.fixture
def no_primus(monkeypatch):
    monkeypatch.delenv("PRIMUS_AM_RPC_HOST", raising=False)
    monkeypatch.setenv("PRIMUS_AM_RPC_PORT", "1")


def test_kill(app_master):
    app_master.answers["kill"] = [pb2.KillResponse(), pb2.KillResponse()]
    assert primus.maybe_kill_application("no more data") is True
    assert primus.maybe_kill_application("again") is True
    request = app_master.requests[0]
    assert (request.exit_code, request.diagnose) == (1, "no more data")
    assert request.graceful_shutdown_timeout_ms.value == 20000
    assert 5 < app_master.patience[0] < 11, "ten seconds, with the rounding of gRPC"
    assert len(grpc_calls._CHANNEL_MAP) == 1, "one channel per address"


def test_finish(app_master):
    app_master.answers["succeed"] = [pb2.SucceedResponse()]
    assert primus.maybe_finish_application() is True
    (request,) = app_master.requests
    assert (request.exit_code, request.diagnose, request.graceful_shutdown_timeout_ms.value) == (0, "", 20000)
    assert 5 < app_master.patience[0] < 11, "ten seconds, with the rounding of gRPC"


def test_a_job_that_ends_well_is_done(app_master):
    app_master.answers["succeed"] = [pb2.SucceedResponse()]
    with app_master_learns_the_end():
        assert not app_master.requests
    assert [type(one).__name__ for one in app_master.requests] == ["SucceedRequest"]


def test_a_chief_that_fails_ends_the_application(app_master, tmp_path):
    app_master.answers["kill"] = [pb2.KillResponse()]
    config = RunnerConfig(model_dir=tmp_path / "model", num_ps=1, session_creation_timeout_secs=0)
    with pytest.raises(TimeoutError, match="waited 0 seconds for 1 processes"):
        mono.Estimator(MovieRanking, config).train()
    (request,) = app_master.requests
    assert request.diagnose.startswith("TimeoutError: waited 0 seconds for 1 processes named 'ps'")


class ScalesAtFirst(mono.Hook):
    """Asks for another number of processes after the first step, as `monolith scale` does."""

    def __init__(self, folder):
        self._folder, self.said = folder, None

    def after_run(self, context, values):
        if self.said is None:
            with chief_client(self._folder) as client:
                wish = ask(CoordinationRequest.SCALE, num_ps=2, num_workers=None)
                self.said = client.request(wish, PATIENCE_SECONDS).meta


def test_a_job_that_stops_to_be_scaled_is_not_told_as_done(app_master, tmp_path):
    folder = tmp_path / "model"
    config = config_of(folder, num_ps=1, operation_timeout_in_ms=60_000)
    server = threading.Thread(target=take_part, args=(folder, 8), kwargs={"num_ps": 1, "server_type": "ps", "index": 0})
    server.start()
    hook = ScalesAtFirst(folder)
    result = mono.Estimator(Counting, config, params={"events": 8_000}).train(hooks=[hook])
    server.join(PATIENCE_SECONDS)
    assert hook.said["num_ps"] == 2
    assert result.scale_to == (2, 1)
    assert not app_master.requests


def test_outside_primus_nobody_is_told(no_primus, caplog):
    with pytest.raises(RuntimeError, match="the run failed"), app_master_learns_the_end():
        raise RuntimeError("the run failed")
    assert not caplog.text


def test_a_savepoint_is_awaited(app_master):
    app_master.answers = {
        "createSavepoint": [pb2.CreateSavepointResponse(savepoint_id="s7")],
        "createSavepointStatus": [
            pb2.CreateSavepointStatusResponse(create_savepoint_state=state)
            for state in (State.PENDING, State.RUNNING, State.SUCCEEDED)
        ],
    }
    assert primus.create_primus_save_point("hdfs:/points/7") is True
    created, *polls = app_master.requests
    assert created.savepoint_dir == "hdfs:/points/7"
    assert [poll.savepoint_restore_id for poll in polls] == ["s7"] * 3


@pytest.mark.parametrize("state", [State.FAILED, 9])
def test_a_savepoint_that_fails(app_master, state, caplog):
    app_master.answers = {
        "createSavepoint": [pb2.CreateSavepointResponse(savepoint_id="s7")],
        "createSavepointStatus": [pb2.CreateSavepointStatusResponse(create_savepoint_state=state, message="disk full")],
    }
    assert primus.create_primus_save_point("/points/7") is False
    assert f"the savepoint in /points/7 ended in state {int(state)}: disk full" in caplog.text


def test_a_savepoint_that_is_refused(app_master, caplog):
    app_master.answers["createSavepoint"] = [pb2.CreateSavepointResponse(code=3, message="no such folder")]
    assert primus.create_primus_save_point("/points/7") is False
    assert "code 3, no such folder" in caplog.text
    assert len(app_master.requests) == 1


def test_an_application_master_that_fails(app_master, caplog):
    assert primus.maybe_kill_application("why") is False
    assert primus.maybe_finish_application() is None
    assert primus.create_primus_save_point("/points/7") is False
    assert caplog.text.count("not now") >= 3


@pytest.mark.usefixtures("no_primus")
def test_without_primus_nothing_is_asked(caplog):
    with caplog.at_level(logging.INFO):
        assert primus.maybe_kill_application("why") is False
        assert "Current framework doesn't support kill. Ignore killing..." in caplog.text
        caplog.clear()
        assert primus.maybe_finish_application() is None
        assert primus.create_primus_save_point("/points/7") is None
        assert not caplog.text


def test_names_and_numbers_of_the_protocol():
    service = pb2.DESCRIPTOR.services_by_name["AppMasterService"]
    assert service.full_name == SERVICE
    assert [method.name for method in service.methods] == [
        "ponyHeartbeat", "ponyGetPSInfo", "ponyStartWorker", "succeed", "kill", "suspend", "suspendStatus", "resume",
        "getSnapshot", "progress", "isStarving", "status", "getTaskTimePoint", "createSavepoint",
        "createSavepointStatus",
    ]  # fmt: skip
    kill = pb2.KillRequest(exit_code=1, diagnose="a", graceful_shutdown_timeout_ms={"value": 300})
    assert kill.SerializeToString().hex(" ") == "08 01 12 01 61 1a 03 08 ac 02"
    info = pb2.PonyGetPSInfoResponse(ps_info=[pb2.PSInfo(ip="a", ports=[1], shard_id=2, name="b")])
    assert info.SerializeToString().hex(" ") == "0a 0b 0a 01 61 12 01 01 18 02 22 01 62"
    status = pb2.CreateSavepointStatusResponse(code=1, message="a", create_savepoint_state=State.FAILED)
    assert status.SerializeToString().hex(" ") == "08 01 12 01 61 18 03"
    states = pb2.PonyHeartbeatResponse.DESCRIPTOR.fields_by_name["state"].enum_type.values
    assert {one.name: one.number for one in states} == {
        "PS_REGISTERING": 0, "PS_REGISTERED": 1, "RUNNING": 2, "FINISH": 3
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cloud", "yarn", "host"),
    [
        (None, "1.2.3.4", "1.2.3.4"),
        ("1.2.3.4,5.6.7.8", None, "1.2.3.4"),
        ("1.2.3.4,5.6.7.8", "9.9.9.9", "1.2.3.4"),
        ("fd00::1", None, "fd00::1"),
    ],
)
def test_the_host_is_what_the_cluster_says(monkeypatch, cloud, yarn, host):
    for name, value in {"CLOUDNATIVE_INET_ADDR": cloud, "YARN_INET_ADDR": yarn}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert get_local_host() == host


def test_the_host_without_a_cluster(monkeypatch):
    monkeypatch.delenv("CLOUDNATIVE_INET_ADDR", raising=False)
    monkeypatch.delenv("YARN_INET_ADDR", raising=False)
    assert get_local_host()
    monkeypatch.setenv("YARN_INET_ADDR", "")
    with pytest.raises(ValueError, match="set but empty; unset it"):
        get_local_host()
