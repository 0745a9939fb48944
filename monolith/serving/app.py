"""The HTTP side of a served model: routes, and nothing that knows how predictions are made."""

import json
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monolith.export.serving_model import ServingModel
from monolith.serving import inference_protocol, predict_form
from monolith.serving.json_values import read_object
from monolith.serving.metrics import Metrics

MAX_BODY_BYTES = 16 << 20
"""Larger requests are refused: about a hundred thousand examples of ten inputs."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Answer = tuple[dict[str, Any], int]
Form = Callable[[ServingModel, Mapping[str, Any]], Answer]

_log = logging.getLogger(__name__)


def create_app(
    model: ServingModel,
    metrics: Metrics,
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    on_ready: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the application that answers for one model; `on_ready` is called when it is about to answer."""
    app = FastAPI(title="Monolith", lifespan=_lifespan(on_ready), docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(_Counting, metrics=metrics)
    _add_health(app, model, metrics)
    _add_inference(app, model, metrics, max_body_bytes)
    _add_predict_form(app, model, metrics, max_body_bytes)
    return app


def _add_health(app: FastAPI, model: ServingModel, metrics: Metrics) -> None:
    @app.get("/v2/health/live")
    async def live() -> dict[str, bool]:
        return {"live": True}

    @app.get("/v2/health/ready")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    # The server stands below the front door and does not import it, but Python has, to get here.
    software_version = sys.modules["monolith"].__version__

    @app.get("/v2")
    async def server() -> dict[str, Any]:
        return {"name": "monolith", "version": software_version, "extensions": []}

    @app.get("/metrics")
    async def figures() -> Response:
        return Response(await run_in_threadpool(metrics.text), media_type=METRICS_TYPE)

    @app.get("/v2/models/{name}/ready")
    @app.get("/v2/models/{name}/versions/{version}/ready")
    async def model_ready(name: str, version: str | None = None) -> dict[str, Any]:
        _require(model, name, version)
        return {"name": model.name, "ready": True}

    @app.get("/v2/models/{name}")
    @app.get("/v2/models/{name}/versions/{version}")
    async def metadata(name: str, version: str | None = None) -> dict[str, Any]:
        _require(model, name, version)
        return inference_protocol.model_metadata(model)


def _add_inference(app: FastAPI, model: ServingModel, metrics: Metrics, max_body_bytes: int) -> None:
    @app.post("/v2/models/{name}/infer")
    @app.post("/v2/models/{name}/versions/{version}/infer")
    async def infer(request: Request, name: str, version: str | None = None) -> Response:
        _require(model, name, version)
        return await _answer(model, metrics, inference_protocol.infer, await _body(request, max_body_bytes))


def _add_predict_form(app: FastAPI, model: ServingModel, metrics: Metrics, max_body_bytes: int) -> None:
    # The one with ":predict" first: a name may have a colon in it as far as the other is concerned.
    @app.post("/v1/models/{name}:predict")
    @app.post("/v1/models/{name}/versions/{version}:predict")
    async def predict(request: Request, name: str, version: str | None = None) -> Response:
        _require(model, name, version)
        return await _answer(model, metrics, predict_form.predict, await _body(request, max_body_bytes))

    @app.get("/v1/models/{name}")
    @app.get("/v1/models/{name}/versions/{version}")
    async def status(name: str, version: str | None = None) -> dict[str, Any]:
        _require(model, name, version)
        return predict_form.model_status(model)


def _require(model: ServingModel, name: str, version: str | None) -> None:
    if name != model.name:
        raise HTTPException(404, f"there is no model {name!r}; this server has {model.name!r}")
    if version is not None and version != str(model.version):
        raise HTTPException(404, f"model {name!r} has no version {version!r} here; it has {str(model.version)!r}")


async def _body(request: Request, max_bytes: int) -> bytes:
    """Return the body; of what is too large no more than the limit is ever in memory."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= max_bytes:
            parts.append(part)
        elif size > 4 * max_bytes:
            break
    # Only now: a client that is still sending would not read the answer.
    if size > max_bytes:
        raise HTTPException(413, f"the request has more than {max_bytes} bytes; send fewer examples at a time")
    return b"".join(parts)


async def _answer(model: ServingModel, metrics: Metrics, form: Form, body: bytes) -> Response:
    """Predict in a thread, so that the others are answered meanwhile."""
    try:
        content, num_examples = await run_in_threadpool(_encoded, form, model, body)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    metrics.count_examples(num_examples)
    return Response(content, media_type="application/json")


def _encoded(form: Form, model: ServingModel, body: bytes) -> tuple[bytes, int]:
    answer, num_examples = form(model, read_object(body))
    try:
        return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode(), num_examples
    except ValueError:
        raise HTTPException(500, "a prediction is NaN or infinite, which JSON cannot say") from None


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


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
        except Exception:
            _log.exception("a defect in answering %s", scope["path"])
            if status:
                raise
            failure = JSONResponse({"error": "the server failed; its log says why"}, 500)
            await failure(scope, receive, send_and_look)
        finally:
            # The pattern, not the path: a path is anybody's text, and each would be a figure of its own.
            route = getattr(scope.get("route"), "path", "unknown")
            self._metrics.count_request(route, status, time.perf_counter() - start)


def _lifespan(on_ready: Callable[[], None]) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        on_ready()
        yield

    return lifespan
