"""Sizes of tables for people, wherever their rows are."""

from collections.abc import Sequence
from typing import Any


def sizes_on_servers(statuses: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return rows and bytes by table, from what each parameter server says of itself.

    >>> one = {"num_rows": {"uid": 2}, "bytes": {"uid": 300}}
    >>> sizes_on_servers([one, one])
    {'uid': (4, 600)}
    """
    names = statuses[0]["num_rows"]
    return {name: (_total(statuses, "num_rows", name), _total(statuses, "bytes", name)) for name in names}


def _total(statuses: Sequence[dict[str, Any]], figure: str, table: str) -> int:
    return sum(one[figure][table] for one in statuses)


def table_sizes(tables: Any) -> dict[str, tuple[int, int | None]]:
    """Return rows and bytes by table; bytes are None where the rows are on parameter servers."""
    if hasattr(tables, "num_rows"):  # one request for all
        return {name: (rows, None) for name, rows in tables.num_rows().items()}
    return {name: (len(table), table.memory().bytes_total) for name, table in tables.tables.items()}
