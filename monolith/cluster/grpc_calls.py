"""Calls by gRPC, to peers that speak nothing else, and answers to them. The one module that imports grpc."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

try:
    import grpc
except ImportError as error:
    raise ImportError(
        "gRPC needs the grpcio package: pip install 'monolith-recsys[primus]'",
        name="grpc",
    ) from error

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from monolith.closing import Closing

RpcError = grpc.RpcError
"""What a call that was not answered raises."""

AnswerCall = Callable[[Any], Any]
"""Returns the response to a request; a ValueError tells the client what is wrong with it."""

_NUM_THREADS: Final = 10
_GRACE_SECONDS: Final = 1.0
_CHANNEL_MAP: dict[str, Any] = {}
_CHANNEL_LOCK = threading.Lock()


def grpc_call(addr: str, method: str, request: Any, response: type[Any], *, timeout_seconds: float) -> Any:
    """Return the response of a peer to "/package.Service/Method"; an RpcError if it does not answer in time."""
    call = _get_channel(addr).unary_unary(
        method,
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString,
    )
    return call(request, timeout=timeout_seconds)


class GrpcServer(Closing):
    """Answers the methods of one service, to this machine alone."""

    def __init__(self, service: ServiceDescriptor, answers: Mapping[str, AnswerCall], *, port: int = 0) -> None:
        """Listen at a port of the loopback interface; 0 lets the system choose.

        Raises:
            OSError: the port is in use.
            ValueError: the answer to a method is missing.
        """
        missing = sorted(method.name for method in service.methods if method.name not in answers)
        if missing:
            raise ValueError(f"{service.full_name} has methods without an answer: {', '.join(missing)}")
        # Else a second server could listen at the same port, and each would get some of the calls.
        options = (("grpc.so_reuseport", 0),)
        self._server = grpc.server(ThreadPoolExecutor(_NUM_THREADS, "grpc"), options=options)
        handlers = {method.name: _handler(method, answers[method.name]) for method in service.methods}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
        try:
            self.address = f"127.0.0.1:{self._server.add_insecure_port(f'127.0.0.1:{port}')}"
        except RuntimeError as error:
            raise OSError(f"gRPC cannot listen at 127.0.0.1:{port}: {error}; choose another port") from error
        self._server.start()

    def close(self) -> None:
        """Listen no longer; calls under way have a second."""
        self._server.stop(_GRACE_SECONDS).wait()


def _handler(method: MethodDescriptor, answer: AnswerCall) -> Any:
    def answered(request: Any, context: Any) -> Any:
        try:
            return answer(request)
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    return grpc.unary_unary_rpc_method_handler(
        answered,
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=GetMessageClass(method.output_type).SerializeToString,
    )


def _get_channel(addr: str) -> Any:
    """Return the channel to an address, the same one every time."""
    with _CHANNEL_LOCK:
        if addr not in _CHANNEL_MAP:
            _CHANNEL_MAP[addr] = grpc.insecure_channel(addr)
        return _CHANNEL_MAP[addr]
