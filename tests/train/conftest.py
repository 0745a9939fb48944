"""What the tests of training share."""

from pathlib import Path

import pytest

from tests.model.movie_model import write_movie_log


@pytest.fixture(scope="module")
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An event log of as many events as the test's module says in NUM_EVENTS."""
    path = tmp_path_factory.mktemp("events") / "log"
    write_movie_log(path, request.module.NUM_EVENTS)
    return path
