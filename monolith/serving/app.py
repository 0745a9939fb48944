"""The HTTP side of a served model: routes, and nothing that knows how predictions are made."""

import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from anyio import to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monolith._core.native import release_free_memory
from monolith.errors import NotFiniteError, shown
from monolith.export.serving_model import ServingModel
from monolith.serving import api_description, inference_protocol, predict_form
from monolith.serving.answer import Answer, error_response, json_response
from monolith.serving.batching import Batches, Read
from monolith.serving.metrics import Metrics
from monolith.serving.request_body import (
    MAX_BODY_BYTES,
    MIN_COMPRESSED_BYTES,
    BodyError,
    WholeBodies,
    packed,
    unpacked,
    wanted_encoding,
)
from monolith.version import __version__

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

JSON_BYTES_HEADER = "Inference-Header-Content-Length"
"""Says how much of a body is JSON, where binary tensors follow."""

CLIENT_GONE = 499
"""Counted, never sent: the client closed the connection before its request was whole."""

# Up to here requests are predicted together; a larger one would keep the others waiting.
_SMALL_BODY_BYTES = 1 << 16

# From here on, giving back its memory takes no time beside the rest.
_LARGE_BODY_BYTES = 1 << 20

# More would mostly wait for the interpreter lock.
_MAX_BATCH_THREADS = 4

Endpoint = Callable[[Request], Any]

_log = logging.getLogger(__name__)


def create_app(
    model: ServingModel,
    metrics: Metrics,
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    on_ready: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the application that answers for one model; `on_ready` is called when it is about to answer."""
    batches = Batches(model, num_threads=min(_MAX_BATCH_THREADS, max(1, (os.cpu_count() or 1) - 1)))
    app = FastAPI(title="Monolith", lifespan=_lifespan(batches, on_ready), docs_url=None, redoc_url=None)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(BodyError, _body_error)
    # The last one is the first to see a request.
    app.add_middleware(WholeBodies, max_bytes=max_body_bytes)
    app.add_middleware(_Counting, metrics=metrics)
    answers = _Answers(model, batches, metrics, max_body_bytes)
    software = {"name": "monolith", "version": __version__}
    described = api_description.operations(model)

    def add(method: str, path: str, endpoint: Endpoint) -> None:
        app.add_api_route(path, endpoint, methods=[method], response_model=None, **described[method, path])

    def add_constant(path: str, value: dict[str, Any]) -> None:
        async def constant(request: Request) -> Response:
            _require(model, request)
            return json_response(value)

        add("GET", path, constant)

    async def figures(_: Request) -> Response:
        return Response(await to_thread.run_sync(metrics.text), media_type=METRICS_TYPE)

    add_constant("/v2/health/live", {"live": True})
    add_constant("/v2/health/ready", {"ready": True})
    add_constant("/v2", {**software, "extensions": inference_protocol.EXTENSIONS})
    add("GET", "/metrics", figures)
    for version in ("", "/versions/{version}"):
        add_constant(f"/v2/models/{{name}}{version}/ready", {"name": model.name, "ready": True})
        add_constant(f"/v2/models/{{name}}{version}", inference_protocol.model_metadata(model))
        add("POST", f"/v2/models/{{name}}{version}/infer", answers.to(inference_protocol.read_request))
        # Before the status: a name may have a colon in it as far as that is concerned.
        add("POST", f"/v1/models/{{name}}{version}:predict", answers.to(predict_form.read_request))
        add_constant(f"/v1/models/{{name}}{version}", predict_form.model_status(model))
    return app


class _Answers:
    """Predicts in threads, so that other requests do not wait: small requests together, others one by one."""

    def __init__(self, model: ServingModel, batches: Batches, metrics: Metrics, max_body_bytes: int) -> None:
        self._model = model
        self._batches = batches
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes
        # More would not be faster, would need more memory at a time, and keep the event loop from the interpreter.
        num_cores = os.cpu_count() or 1
        self._threads = anyio.CapacityLimiter(max(4, num_cores))
        # Large requests leave a core to the others.
        self._threads_of_large = anyio.CapacityLimiter(max(1, num_cores - 1))

    def to(self, read: Read) -> Endpoint:
        """Return an endpoint for one form of request."""

        async def endpoint(request: Request) -> Response:
            _require(self._model, request)
            json_bytes = _json_bytes(request)
            encoding = request.headers.get("content-encoding", "")
            wanted = wanted_encoding(request.headers.get("accept-encoding", ""))
            body = await request.body()
            try:
                if len(body) <= _SMALL_BODY_BYTES and not encoding:
                    answer = await self._batches.answer(read, body, json_bytes)
                else:
                    limiter = self._threads if len(body) < _LARGE_BODY_BYTES else self._threads_of_large
                    answer = await to_thread.run_sync(self._alone, read, body, json_bytes, encoding, limiter=limiter)
            except ValueError as error:
                raise HTTPException(400, str(error)) from error
            except NotFiniteError as error:
                raise HTTPException(500, str(error)) from error
            self._metrics.count_examples(answer.num_examples)
            if wanted is None or len(answer.content) < MIN_COMPRESSED_BYTES:
                return _response(answer, answer.content, None)
            return _response(answer, *await to_thread.run_sync(packed, answer.content, wanted, limiter=self._threads))

        return endpoint

    def _alone(self, read: Read, body: bytes, json_bytes: int | None, encoding: str) -> Answer:
        try:
            return self._predicted(read, unpacked(body, encoding, self._max_body_bytes), json_bytes)
        except ValueError as error:
            _forget_frames(error)
            raise
        finally:
            if len(body) >= _LARGE_BODY_BYTES:
                release_free_memory()

    def _predicted(self, read: Read, body: bytes, json_bytes: int | None) -> Answer:
        # A function of its own: what was read is free when it returns.
        inquiry = read(self._model, body, json_bytes)
        return inquiry.answer(self._model.predict_together([inquiry.question])[0])


def _forget_frames(error: ValueError) -> None:
    """Let go of the frames in which an error arose: they hold all that was read of a request."""
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__context__


def _require(model: ServingModel, request: Request) -> None:
    """Refuse a path that names another model or version."""
    name, version = request.path_params.get("name", model.name), request.path_params.get("version")
    if name != model.name:
        raise HTTPException(404, f"there is no model {shown(name)}; this server has {model.name!r}")
    if version is not None and version != str(model.version):
        raise HTTPException(404, f"model {name!r} has no version {shown(version)} here; it has {str(model.version)!r}")


def _json_bytes(request: Request) -> int | None:
    text = request.headers.get(JSON_BYTES_HEADER)
    if text is None:
        return None
    # No more digits than a body can have: Python refuses to read very many.
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise HTTPException(400, f"{JSON_BYTES_HEADER} must be a number of bytes, got {shown(text)}")
    return int(text)


def _response(answer: Answer, content: bytes, encoding: str | None) -> Response:
    headers = {}
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    if answer.json_bytes is None:
        return Response(content, media_type="application/json", headers=headers)
    headers[JSON_BYTES_HEADER] = str(answer.json_bytes)
    return Response(content, media_type="application/octet-stream", headers=headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, error.detail, error.headers)


async def _body_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, BodyError)
    return error_response(error.status, str(error), error.headers)


class _Counting:
    """Counts every answer; a defect of ours becomes an answer too."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def send_and_look(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_look)
        except ClientDisconnect:
            status = CLIENT_GONE
        except Exception:
            _log.exception("a defect in answering %s", shown(scope["path"]))
            if status:
                raise
            failure = error_response(500, "the server failed; its log says why")
            await failure(scope, receive, send_and_look)
        finally:
            # The pattern, not the path: a path is anybody's text, and each would be a figure of its own.
            route = getattr(scope.get("route"), "path", "unknown")
            self._metrics.count_request(route, status, time.perf_counter() - start)


def _lifespan(batches: Batches, on_ready: Callable[[], None]) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with batches:
            on_ready()
            yield

    return lifespan
