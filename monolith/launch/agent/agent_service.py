"""AgentService: what an agent answers by gRPC about the servers of all models, and about itself."""

import os
from typing import Final

from monolith.cluster.grpc_calls import GrpcServer
from monolith.cluster.serving.records import DENSE, ENTRY, PS
from monolith.cluster.serving.replica_watcher import ReplicaWatcher
from monolith.launch.agent.agent_config import AgentConfig
from monolith.protos.agent_service_pb2 import (
    DESCRIPTOR,
    AddressList,
    GetReplicasRequest,
    GetReplicasResponse,
    GetResourceRequest,
    GetResourceResponse,
    HeartBeatRequest,
    HeartBeatResponse,
    ServerType,
)

_TYPES: Final[dict[int, str]] = {ServerType.PS: PS, ServerType.ENTRY: ENTRY, ServerType.DENSE: DENSE}
_UNKNOWN: Final = -1.0


class AgentService(GrpcServer):
    """The original's service of an agent, `monolith.serving.agent_service.AgentService`, for this machine alone."""

    def __init__(self, watcher: ReplicaWatcher, config: AgentConfig, *, port: int = 0) -> None:
        """Answer from what a watcher of all models knows; see `GrpcServer` for the port."""
        self._watcher, self._config = watcher, config
        super().__init__(
            DESCRIPTOR.services_by_name["AgentService"],
            {"GetReplicas": self._replicas, "GetResource": self._resource, "HeartBeat": self._heart_beat},
            port=port,
        )

    def _replicas(self, request: GetReplicasRequest) -> GetReplicasResponse:
        """Return the available servers of one part of a model."""
        found = self._watcher.get_replicas(_type_of(request.server_type), request.task, request.model_name)
        return GetReplicasResponse(address_list=AddressList(address=found.values()))

    def _heart_beat(self, request: HeartBeatRequest) -> HeartBeatResponse:
        """Return the available servers of a type, by "model:ps_0"; an entry has no number."""
        server_type = _type_of(request.server_type)
        found = {}
        for model in self._watcher.models:
            for name, addresses in self._watcher.get_all_replicas(server_type, model).items():
                part = ENTRY if server_type == ENTRY else name.replace(":", "_")
                found[f"{model}:{part}"] = AddressList(address=addresses)
        return HeartBeatResponse(addresses=found)

    def _resource(self, _: GetResourceRequest) -> GetResourceResponse:
        """Return who this agent is, and the memory that is free here; nothing else is measured."""
        return GetResourceResponse(
            address=self.address,
            shard_id=self._config.shard_id,
            replica_id=self._config.replica,
            memory=os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            cpu=_UNKNOWN,
            network=_UNKNOWN,
            work_load=_UNKNOWN,
        )


def _type_of(number: int) -> str:
    if number not in _TYPES:
        raise ValueError(f"server_type must be 0 (PS), 1 (ENTRY) or 2 (DENSE), got {number}")
    return _TYPES[number]
