"""Every kind of table passes the same checks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from monolith.embedding import MultiTable, Segment, SgdOptimizer, Table, TableConfig
from monolith.embedding.table_protocol import DictTable, TableProtocol
from monolith.parallel import RemoteTables, TableServer
from monolith.wire import SharedSecret
from tests.contract.table_checks import CHECKS, DIM, LEARNING_RATE, Check

SGD = SgdOptimizer(learning_rate=LEARNING_RATE)
KINDS = ["dict", "native", "native of two segments", "on one server", "on three servers"]


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableProtocol]:
    if request.param == "dict":
        yield DictTable(DIM, LEARNING_RATE)
    elif request.param.startswith("native"):
        segments = (Segment(DIM, SGD),) if request.param == "native" else (Segment(1, SGD), Segment(DIM - 1, SGD))
        yield Table(TableConfig(name="t", segments=segments))
    else:
        yield from remote_table(1 if request.param == "on one server" else 3, tmp_path)


def remote_table(num_servers: int, folder: Path) -> Iterator[TableProtocol]:
    """Yield a table that shares its servers with another one."""
    configs = {
        "other": TableConfig(name="other", segments=(Segment(2, SGD),)),
        "t": TableConfig(name="t", segments=(Segment(DIM, SGD),)),
    }
    secret = SharedSecret.new("a test")
    servers = [
        TableServer(
            MultiTable(configs), f"unix:{folder}/{shard}.sock", shard=shard, num_shards=num_servers, secret=secret
        )
        for shard in range(num_servers)
    ]
    try:
        with RemoteTables(configs, [server.address for server in servers], secret=secret) as tables:
            yield tables["t"]
            assert len(tables["other"]) == 0
    finally:
        for server in servers:
            server.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_table(check: Check, table: TableProtocol) -> None:
    check(table)
