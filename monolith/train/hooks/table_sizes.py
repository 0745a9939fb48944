"""Sizes of tables for people, wherever their rows are."""

from typing import Any


def table_sizes(tables: Any) -> dict[str, tuple[int, int | None]]:
    """Return rows and bytes by table; bytes are None where the rows are on parameter servers."""
    if hasattr(tables, "num_rows"):  # one request for all
        return {name: (rows, None) for name, rows in tables.num_rows().items()}
    return {name: (len(table), table.memory().bytes_total) for name, table in tables.tables.items()}
