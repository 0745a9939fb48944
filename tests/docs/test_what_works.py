"""docs/what-works.md is true: one can use what it names, what it calls missing is missing, and nothing is left out."""

import re
from importlib import import_module

import pytest
import typer

from monolith.cli.app import app
from monolith.train.config.unread import UNREAD
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "what-works.md").read_text(encoding="utf-8")
COMMANDS = {f"monolith {name}" for name in typer.main.get_command(app).commands}
MISSING = re.compile(r"(.+) will read it, and is not there yet")
WAY_OUT = "bring docs/what-works.md up to date"


def rows(first_column: str) -> list[list[str]]:
    """Return the cells of a table without its head."""
    table = re.search(rf"^\| {first_column} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


CELLS = [(task, cell) for task, *cells in rows("task") for cell in cells]
WORKING = sorted({name for _, cell in CELLS if "not yet" not in cell for name in re.findall(r"`([^`]+)`", cell)})


def capability(setting: str) -> str | None:
    """Return what a setting waits for; None if it has a reader, or has none for another reason."""
    found = MISSING.fullmatch(UNREAD[setting].reason) if setting in UNREAD else None
    return found and found[1]


@pytest.mark.parametrize(("task", "cell"), CELLS)
def test_a_cell_is_a_name_or_a_setting_that_is_missing_or_nothing(task, cell):
    assert cell == "–" or re.fullmatch(r"not yet: `\w+`", cell) or ("not yet" not in cell and "`" in cell)


@pytest.mark.parametrize("name", WORKING)
def test_what_works_can_be_used(name):
    if name.startswith("monolith "):
        assert name in COMMANDS
    else:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute)


def test_what_is_not_yet_there_is_what_settings_wait_for():
    waiting = {capability(setting) for setting in UNREAD} - {None}
    named = {capability(one) for _, cell in CELLS for one in re.findall(r"not yet: `(\w+)`", cell)}
    assert named == waiting, WAY_OUT


def test_every_command_is_named():
    assert not COMMANDS - set(WORKING), WAY_OUT


def test_the_searches_find_something():
    assert len(CELLS) > 30 and len(WORKING) > 15
