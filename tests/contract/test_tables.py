"""Every kind of table passes the same checks."""

import pytest

from monolith.embedding import Segment, SgdOptimizer, Table, TableConfig
from monolith.embedding.table_protocol import DictTable, TableProtocol
from tests.contract.table_checks import CHECKS, DIM, LEARNING_RATE, Check


@pytest.fixture(params=["dict", "native", "native of two segments"])
def table(request: pytest.FixtureRequest) -> TableProtocol:
    if request.param == "dict":
        return DictTable(DIM, LEARNING_RATE)
    sgd = SgdOptimizer(learning_rate=LEARNING_RATE)
    segments = (Segment(DIM, sgd),) if request.param == "native" else (Segment(1, sgd), Segment(DIM - 1, sgd))
    return Table(TableConfig(name="t", segments=segments))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_table(check: Check, table: TableProtocol) -> None:
    check(table)
