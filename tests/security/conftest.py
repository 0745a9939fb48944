from tests.wire.conftest import certificates  # noqa: F401  a fixture
