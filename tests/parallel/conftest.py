import pytest

from tests.parallel.flaky_serving import FlakyServing


@pytest.fixture
def serving():
    serving = FlakyServing()
    yield serving
    serving.close()
