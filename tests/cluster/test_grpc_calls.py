"""A gRPC service of ours, asked by grpc's own client."""

import grpc
import pytest

from monolith.cluster.grpc_calls import GrpcServer, RpcError, grpc_call
from monolith.protos import agent_service_pb2 as pb2
from tests.patience import PATIENCE_SECONDS

SERVICE = pb2.DESCRIPTOR.services_by_name["AgentService"]


def answers(**others):
    return {
        "GetReplicas": lambda request: pb2.GetReplicasResponse(address_list={"address": [request.model_name] * 2}),
        "GetResource": lambda request: pb2.GetResourceResponse(memory=7),
        "HeartBeat": lambda request: pb2.HeartBeatResponse(),
        **others,
    }


def ask(address, method, request, response):
    path = f"/monolith.serving.agent_service.AgentService/{method}"
    return grpc_call(address, path, request, response, timeout_seconds=PATIENCE_SECONDS)


def test_methods_are_answered_by_their_names():
    with GrpcServer(SERVICE, answers()) as server:
        assert server.address.startswith("127.0.0.1:")
        found = ask(server.address, "GetReplicas", pb2.GetReplicasRequest(model_name="movie"), pb2.GetReplicasResponse)
        assert found.address_list.address == ["movie", "movie"]
        assert ask(server.address, "GetResource", pb2.GetResourceRequest(), pb2.GetResourceResponse).memory == 7


def test_a_wrong_request_is_told_what_is_wrong():
    def refuse(request):
        raise ValueError(f"task {request.task} is not here")

    with GrpcServer(SERVICE, answers(GetReplicas=refuse)) as server, pytest.raises(RpcError) as raised:
        ask(server.address, "GetReplicas", pb2.GetReplicasRequest(task=5), pb2.GetReplicasResponse)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert raised.value.details() == "task 5 is not here"


def test_a_port_has_one_server_and_a_service_all_its_methods():
    with GrpcServer(SERVICE, answers()) as server:
        port = int(server.address.rpartition(":")[2])
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{port}"):
            GrpcServer(SERVICE, answers(), port=port)
    with pytest.raises(ValueError, match="methods without an answer: GetReplicas, HeartBeat"):
        GrpcServer(SERVICE, {"GetResource": answers()["GetResource"]})
