"""The HTTP side of served models: routes, and nothing that knows how predictions are made."""

import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
from anyio import to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monolith._core.native import release_free_memory
from monolith.errors import CorruptFileError, NotFiniteError, shown
from monolith.export.serving_model import ServingModel
from monolith.parallel.replicas.replicated_tables import ShardAwayError
from monolith.serving.access.bearer import BearerOnly
from monolith.serving.access.tokens import Tokens
from monolith.serving.answer import Answer, error_response, json_response
from monolith.serving.api import api_description
from monolith.serving.api.api_page import api_page
from monolith.serving.batching import Batches, Read, with_limit
from monolith.serving.forms import inference_protocol, predict_form
from monolith.serving.forms.repository_form import read_index_request, read_load_request
from monolith.serving.forms.signature_form import signatures_metadata
from monolith.serving.metrics import Metrics
from monolith.serving.models.models import Models
from monolith.serving.models.served_model import NotServedError, ServedModel
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

SHARDS_AWAY_HEADER = "Monolith-Shards-Away"
"""Names the shards that did not answer in time: their rows were zeros in the predictions."""

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
    models: Models,
    metrics: Metrics,
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    max_batch: int | None = None,
    allow_control: bool = False,
    tokens: Tokens | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the application that answers for models; `on_ready` is called when it is about to answer.

    With `max_batch`, a request has at most that many examples. With `allow_control`, clients may load, pin and unload
    versions. With `tokens`, they need one of them.
    """
    num_threads = min(_MAX_BATCH_THREADS, max(1, (os.cpu_count() or 1) - 1))
    batches = Batches(num_threads, max_batch)
    app = FastAPI(title="Monolith", lifespan=_lifespan(batches, on_ready), docs_url=None, redoc_url=None)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(BodyError, _body_error)
    app.add_exception_handler(NotServedError, _not_served)
    app.add_exception_handler(ShardAwayError, _shard_away)
    # The last one is the first to see a request.
    app.add_middleware(WholeBodies, max_bytes=max_body_bytes)
    if tokens is not None:
        app.add_middleware(BearerOnly, tokens=tokens)
    app.add_middleware(_Counting, metrics=metrics, models=models)
    answers = _Answers(models, batches, metrics, max_body_bytes, max_batch)
    described = api_description.operations(models)

    def add(method: str, path: str, endpoint: Endpoint) -> None:
        app.add_api_route(path, endpoint, methods=[method], response_model=None, **described[method, path])

    state = _State(models, metrics)
    add("GET", "/v2/health/live", state.live)
    add("GET", "/v2/health/ready", state.ready)
    add("GET", "/v2", state.server)
    add("GET", "/metrics", state.figures)
    control = _Control(models, allow_control)
    add("POST", "/v2/repository/index", control.index)
    add("POST", "/v2/repository/models/{name}/load", control.load)
    add("POST", "/v2/repository/models/{name}/unload", control.unload)
    for version in ("", "/versions/{version}"):
        add("GET", f"/v2/models/{{name}}{version}/ready", state.model_ready)
        add("GET", f"/v2/models/{{name}}{version}", state.metadata)
        add(
            "POST",
            f"/v2/models/{{name}}{version}/infer",
            answers.to(inference_protocol.read_request),
        )
        # Before the status: a name may have a colon in it as far as that is concerned.
        add(
            "POST",
            f"/v1/models/{{name}}{version}:predict",
            answers.to(predict_form.read_request),
        )
        add("GET", f"/v1/models/{{name}}{version}/metadata", state.signatures)
        add("GET", f"/v1/models/{{name}}{version}", state.status)
    app.add_api_route("/docs", _page(app, models), methods=["GET"], include_in_schema=False, response_model=None)
    api_description.keep_current(app, models, needs_token=tokens is not None)
    return app


def _page(app: FastAPI, models: Models) -> Endpoint:
    """Return the endpoint of the page for people."""

    async def page(_: Request) -> Response:
        loaded = [model for model in models if model.is_loaded]
        metadata = {model.name: inference_protocol.model_metadata(model.current, model.held) for model in loaded}
        # Nothing of it may run, whatever a model is called.
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(api_page(app.openapi(), metadata), media_type="text/html", headers=headers)

    return page


class _State:
    """What the server says of itself and of its models."""

    def __init__(self, models: Models, metrics: Metrics) -> None:
        self._models = models
        self._metrics = metrics

    async def live(self, _: Request) -> Response:
        return json_response({"live": True})

    async def ready(self, _: Request) -> Response:
        is_ready = self._models.is_ready
        return json_response({"ready": is_ready}, 200 if is_ready else 503)

    async def server(self, _: Request) -> Response:
        return json_response({"name": "monolith", "version": __version__, "extensions": inference_protocol.EXTENSIONS})

    async def figures(self, _: Request) -> Response:
        return Response(await to_thread.run_sync(self._metrics.text), media_type=METRICS_TYPE)

    async def model_ready(self, request: Request) -> Response:
        model, is_ready = _asked(self._models, request), self._models.is_ready
        return json_response({"name": model.name, "ready": is_ready}, 200 if is_ready else 503)

    async def metadata(self, request: Request) -> Response:
        model = _asked(self._models, request)
        held = self._models.named(request.path_params["name"]).held
        versions = [model] if "version" in request.path_params else held
        return json_response(inference_protocol.model_metadata(model, versions))

    async def signatures(self, request: Request) -> Response:
        return json_response(signatures_metadata(_asked(self._models, request)))

    async def status(self, request: Request) -> Response:
        model = _asked(self._models, request)
        held = self._models.named(request.path_params["name"]).held
        return json_response(predict_form.model_status([model] if "version" in request.path_params else held))


class _Control:
    """What Triton calls a model repository: which versions there are, and which answer."""

    def __init__(self, models: Models, is_allowed: bool) -> None:
        self._models = models
        self._is_allowed = is_allowed

    async def index(self, request: Request) -> Response:
        try:
            only_ready = read_index_request(await request.body())
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        listed = await to_thread.run_sync(lambda: self._models.index(only_ready=only_ready))
        return json_response(listed)

    async def load(self, request: Request) -> Response:
        model = self._changed(request)
        try:
            version = read_load_request(await request.body())
            loaded = await to_thread.run_sync(model.load, version)
        except CorruptFileError as error:
            raise HTTPException(409, str(error)) from error
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        return json_response({"name": model.name, "version": str(loaded.version), "state": "READY"})

    async def unload(self, request: Request) -> Response:
        model = self._changed(request)
        await to_thread.run_sync(model.unload)
        return json_response({"name": model.name, "state": "UNAVAILABLE"})

    def _changed(self, request: Request) -> ServedModel:
        if not self._is_allowed:
            raise HTTPException(
                403, "clients may not load or unload models here; start the server with --allow-control"
            )
        return self._models.named(request.path_params["name"])


class _Answers:
    """Predicts in threads, so that other requests do not wait: small requests together, others one by one."""

    def __init__(
        self, models: Models, batches: Batches, metrics: Metrics, max_body_bytes: int, max_batch: int | None
    ) -> None:
        self._models = models
        self._batches = batches
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes
        self._max_batch = max_batch
        # More would not be faster, would need more memory at a time, and keep the event loop from the interpreter.
        num_cores = os.cpu_count() or 1
        self._threads = anyio.CapacityLimiter(max(4, num_cores))
        # Large requests leave a core to the others.
        self._threads_of_large = anyio.CapacityLimiter(max(1, num_cores - 1))

    def to(self, read: Read) -> Endpoint:
        """Return an endpoint for one form of request."""
        read = with_limit(read, self._max_batch)

        async def endpoint(request: Request) -> Response:
            # Once: if another version takes over meanwhile, this one still answers.
            model = _asked(self._models, request)
            json_bytes = _json_bytes(request)
            encoding = request.headers.get("content-encoding", "")
            wanted = wanted_encoding(request.headers.get("accept-encoding", ""))
            body = await request.body()
            try:
                if len(body) <= _SMALL_BODY_BYTES and not encoding:
                    answer = await self._batches.answer(model, read, body, json_bytes)
                else:
                    limiter = self._threads if len(body) < _LARGE_BODY_BYTES else self._threads_of_large
                    answer = await to_thread.run_sync(
                        self._alone, model, read, body, json_bytes, encoding, limiter=limiter
                    )
            except ValueError as error:
                raise HTTPException(400, str(error)) from error
            except NotFiniteError as error:
                raise HTTPException(422, str(error)) from error
            self._metrics.count_examples(answer.num_examples)
            if wanted is None or len(answer.content) < MIN_COMPRESSED_BYTES:
                return _response(answer, answer.content, None)
            return _response(answer, *await to_thread.run_sync(packed, answer.content, wanted, limiter=self._threads))

        return endpoint

    def _alone(self, model: ServingModel, read: Read, body: bytes, json_bytes: int | None, encoding: str) -> Answer:
        try:
            return _predicted(model, read, unpacked(body, encoding, self._max_body_bytes), json_bytes)
        except ValueError as error:
            _forget_frames(error)
            raise
        finally:
            if len(body) >= _LARGE_BODY_BYTES:
                release_free_memory()


def _predicted(model: ServingModel, read: Read, body: bytes, json_bytes: int | None) -> Answer:
    # A function of its own: what was read is free when it returns.
    inquiry = read(model, body, json_bytes)
    outputs = model.predict_together([inquiry.question])[0]
    away = model.shards_away
    answer = inquiry.answer(outputs)
    return replace(answer, shards_away=away) if away else answer


def _forget_frames(error: ValueError) -> None:
    """Let go of the frames in which an error arose: they hold all that was read of a request."""
    one: BaseException | None = error
    while one is not None:
        one.__traceback__ = None
        one = one.__context__


def _asked(models: Models, request: Request) -> ServingModel:
    """Return the version that a path names; a NotServedError says which there are."""
    return models.find(request.path_params["name"], request.path_params.get("version"))


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
    if answer.shards_away:
        headers[SHARDS_AWAY_HEADER] = ", ".join(str(shard) for shard in answer.shards_away)
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    if answer.json_bytes is None:
        return Response(content, media_type="application/json", headers=headers)
    headers[JSON_BYTES_HEADER] = str(answer.json_bytes)
    return Response(content, media_type="application/octet-stream", headers=headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, error.detail, error.headers)


async def _not_served(_: Request, error: Exception) -> Response:
    return error_response(404, str(error))


async def _shard_away(_: Request, error: Exception) -> Response:
    return error_response(503, str(error))


async def _body_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, BodyError)
    return error_response(error.status, str(error), error.headers)


class _Counting:
    """Counts every answer; a defect of ours becomes an answer too."""

    def __init__(self, app: ASGIApp, metrics: Metrics, models: Models) -> None:
        self._app = app
        self._metrics = metrics
        self._models = models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def send_and_look(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if not self._models.is_ready:
                    # About to stop: the client's next request goes to another server.
                    message["headers"] = [*message["headers"], (b"connection", b"close")]
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
