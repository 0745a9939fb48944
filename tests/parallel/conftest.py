"""A receiver for every sync test that asks for one."""

import pytest

from tests.parallel.serving_stand import Serving


@pytest.fixture
def serving():
    serving = Serving()
    yield serving
    serving.close()
