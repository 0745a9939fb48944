"""What `monolith status` shows, for tests to look at."""

import re

from typer.testing import CliRunner

from monolith.cli.app import app


def tables_of(folder):
    """Return the lines before the tables, and each row of them as {column: cell}; nothing is cut off at 80 columns."""
    answer = CliRunner().invoke(app, ["status", str(folder), "--timeout", "30"])
    assert answer.exit_code == 0, answer.output
    assert "…" not in answer.stdout and max(map(len, answer.stdout.splitlines())) <= 80
    lines, rows, header = [], [], []
    for line in answer.stdout.splitlines():
        cells = [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]
        if "┃" in line:
            header = cells
        elif cells and not cells[0]:  # words that did not fit into the line before
            rows[-1] = {name: f"{rows[-1][name]} {more}".strip() for name, more in zip(header, cells, strict=True)}
        elif cells:
            rows.append(dict(zip(header, cells, strict=True)))
        elif line and line[0].isalpha():
            lines.append(line)
    return lines, rows
