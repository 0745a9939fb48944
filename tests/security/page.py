"""The page docs/security.md, line by line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"

TRIED: dict[tuple[str, ...], str] = {}
"""Cells of a line -> the test that tries it."""


def rows_of_the_page() -> list[tuple[str, ...]]:
    """Return the cells of every line of every table, without the heads of the tables."""
    lines = (text for text in PAGE.read_text().splitlines() if text.startswith("|"))
    rows = (tuple(cell.strip() for cell in text.strip("|").split("|")) for text in lines)
    return [row for row in rows if row[0] not in ("port", "attempt") and not re.fullmatch("-+", row[0])]


def line(*cells: str) -> Callable[[Any], Any]:
    """Mark a test as the attempt of a line of the page."""

    def mark(test: Any) -> Any:
        assert TRIED.setdefault(cells, test.__name__) == test.__name__, f"two tests try {cells}"
        return test

    return mark
