"""Table servers for tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from monolith.embedding import MultiTable, Segment, SgdOptimizer, TableConfig
from monolith.parallel import RemoteTables, RetryConfig, TableServer
from monolith.wire import SharedSecret
from tests.patience import PATIENCE_SECONDS
from tests.wire.conftest import certificates as certificates

SGD = SgdOptimizer(learning_rate=0.5)
CONFIGS = {
    "item": TableConfig(name="item", segments=(Segment(3, SGD),)),
    "user": TableConfig(name="user", segments=(Segment(1, SGD), Segment(4, SGD))),
}
SECRET = SharedSecret.new("a test")
PLAN_HASH = 77
QUICK = RetryConfig(deadline_seconds=PATIENCE_SECONDS, attempt_seconds=5.0, first_pause_seconds=0.01)

Serve = Callable[..., TableServer]
Join = Callable[..., RemoteTables]


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def serve(cleanup: ExitStack) -> Serve:
    """Start a server of empty tables, with the job's secret unless other proof is named."""

    def start(address: str = "127.0.0.1:0", **settings) -> TableServer:
        tables = settings.pop("tables", None) or MultiTable(CONFIGS)
        proof = {} if "tls" in settings or "insecure" in settings else {"secret": SECRET}
        return cleanup.enter_context(TableServer(tables, address, **{"plan_hash": PLAN_HASH} | proof | settings))

    return start


@pytest.fixture
def join(cleanup: ExitStack) -> Join:
    """Connect to servers in the order of their shards."""

    def connect(*servers: TableServer, **settings) -> RemoteTables:
        proof = {} if "tls" in settings else {"secret": SECRET}
        given = {"plan_hash": PLAN_HASH, "retry": QUICK} | proof | settings
        configs = given.pop("configs", CONFIGS)
        return cleanup.enter_context(RemoteTables(configs, [server.address for server in servers], **given))

    return connect
