"""Imports the client where nothing of the server's packages can be: ``python -m tests.serving.client_probe``."""

import sys
from importlib import import_module

SERVER_PACKAGES = ("fastapi", "starlette", "uvicorn", "h11", "onnx", "onnxruntime", "prometheus_client")

if __name__ == "__main__":
    for name in SERVER_PACKAGES:
        sys.modules[name] = None  # type: ignore[assignment]
    import_module("monolith.serving.client").ServingClient("http://127.0.0.1:1", "movie").close()
