"""Every line of the tables in docs/security.md is tried, and every attempt is a line there, word for word."""

from importlib import import_module

import pytest

from tests.security.page import TRIED, rows_of_the_page

# They register what they try.
for name in (
    "security.test_ports",
    "security.test_deltas",
    "security.test_other_doors",
    "serving.access.test_server",
    "parallel.test_strangers",
    "parallel.test_parameter_servers",
):
    import_module(f"tests.{name}")

ROWS = rows_of_the_page()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_line_of_the_page_is_tried(row):
    assert row in TRIED, f"no test tries this line of docs/security.md; mark one with @line{row}"
    assert ROWS.count(row) == 1


@pytest.mark.parametrize("cells", TRIED, ids=lambda cells: cells[0])
def test_every_attempt_is_a_line_of_the_page(cells):
    assert cells in ROWS, f"{TRIED[cells]} tries what docs/security.md does not say"
