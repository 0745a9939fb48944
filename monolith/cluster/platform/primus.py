"""What a job asks of Primus, the application master on YARN: end as failed, end as done, save. Needs grpc."""

import logging
import os
import time
from typing import Any, Final

from google.protobuf.wrappers_pb2 import Int64Value

from monolith.cluster.grpc_calls import RpcError, grpc_call
from monolith.cluster.host_addresses import concat_ip_and_port
from monolith.protos.primus_am_service_pb2 import (
    CreateSavepointRequest,
    CreateSavepointResponse,
    CreateSavepointStatusRequest,
    CreateSavepointStatusResponse,
    KillRequest,
    KillResponse,
    SucceedRequest,
    SucceedResponse,
)

_SERVICE: Final = "/primus.AppMasterService/"
_GRACE_MILLISECONDS: Final = 20_000
_TIMEOUT_SECONDS: Final = 10
_POLL_SECONDS = 5.0
_log = logging.getLogger(__name__)

_State = CreateSavepointStatusResponse.CreateSavepointState


def maybe_kill_application(reason: str) -> bool:
    """Ask Primus to end the application as failed, for this reason; return whether it took the request."""
    host = _get_primus_am_host()
    if not host:
        _log.info("Current framework doesn't support kill. Ignore killing...")
        return False
    request = KillRequest(exit_code=1, diagnose=reason, graceful_shutdown_timeout_ms=_grace())
    try:
        _call(host, "kill", request, KillResponse)
    except RpcError as error:
        _log.error("Primus at %s did not take the request to kill: %s", host, error)
        return False
    return True


def maybe_finish_application() -> bool | None:
    """Ask Primus to end the application as done; return True if it took the request, None if not or without Primus."""
    host = _get_primus_am_host()
    if host:
        try:
            _call(host, "succeed", SucceedRequest(graceful_shutdown_timeout_ms=_grace()), SucceedResponse)
            return True
        except RpcError as error:
            _log.error("Primus at %s did not take the request to finish: %s", host, error)
    return None


def create_primus_save_point(dst: str) -> bool | None:
    """Have Primus save its position to `dst`, and wait for it; return whether it did, None without Primus."""
    host = _get_primus_am_host()
    if not host:
        return None
    try:
        request = CreateSavepointRequest(savepoint_dir=dst)
        created = _call(host, "createSavepoint", request, CreateSavepointResponse)
        if created.code != 0:
            _log.error("Primus cannot create a savepoint in %s: code %d, %s", dst, created.code, created.message)
            return False
        return _savepoint_succeeds(host, dst, created.savepoint_id)
    except RpcError as error:
        _log.error("Primus at %s cannot create a savepoint in %s: %s", host, dst, error)
        return False


def _savepoint_succeeds(host: str, dst: str, savepoint_id: str) -> bool:
    request = CreateSavepointStatusRequest(savepoint_restore_id=savepoint_id)
    while True:
        status = _call(host, "createSavepointStatus", request, CreateSavepointStatusResponse)
        state = status.create_savepoint_state
        if state == _State.SUCCEEDED:
            _log.info("Primus created a savepoint in %s", dst)
            return True
        if state not in (_State.PENDING, _State.RUNNING):
            _log.error("the savepoint in %s ended in state %d: %s", dst, state, status.message)
            return False
        time.sleep(_POLL_SECONDS)


def _get_primus_am_host() -> str:
    """Return the address of the application master, "" outside Primus. The host "unix" makes the port a path."""
    host, port = os.environ.get("PRIMUS_AM_RPC_HOST"), os.environ.get("PRIMUS_AM_RPC_PORT")
    return concat_ip_and_port(host, port) if host and port else ""


def _call(addr: str, method: str, request: Any, response: type[Any]) -> Any:
    return grpc_call(addr, f"{_SERVICE}{method}", request, response, timeout_seconds=_TIMEOUT_SECONDS)


def _grace() -> Int64Value:
    return Int64Value(value=_GRACE_MILLISECONDS)
