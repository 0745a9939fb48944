"""One server for all tests that only ask it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.export.movie import export
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What a server of the movie model, version 3, says of itself."""
    base = tmp_path_factory.mktemp("served")
    export(base / "versions", 3, generation=4, sequence=17, name="movie")
    with running(base / "versions", base / "ready.json") as (_, ready):
        yield ready


@pytest.fixture(scope="session")
def client(ready: dict[str, Any]) -> Iterator[httpx.Client]:
    """A client of that server."""
    with httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture(scope="session")
def server_pid(ready: dict[str, Any]) -> int:
    """The number of its process."""
    pid: int = ready["pid"]
    return pid
