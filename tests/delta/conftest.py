import pytest

from tests.delta.flaky_serving import FlakyServing


@pytest.fixture
def serving():
    serving = FlakyServing()
    yield serving
    serving.close()
