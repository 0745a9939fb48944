"""HTTP of a process without predictions: whether it lives, whether it is ready, and its figures."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import FastAPI, Response

from monolith.serving.answer import json_response
from monolith.serving.app import METRICS_TYPE
from monolith.serving.metrics import Metrics
from monolith.serving.models.models import Models


def health_app(models: Models, metrics: Metrics, *, on_ready: Callable[[], None]) -> FastAPI:
    """Return the application; `on_ready` is called when it is about to answer."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        on_ready()
        yield

    app = FastAPI(title="Monolith", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/v2/health/live")
    async def live() -> Response:
        return json_response({"live": True})

    @app.get("/v2/health/ready")
    async def ready() -> Response:
        return json_response({"ready": models.is_ready}, 200 if models.is_ready else 503)

    @app.get("/metrics")
    async def figures() -> Response:
        return Response(await to_thread.run_sync(metrics.text), media_type=METRICS_TYPE)

    return app
