"""The README names what a user can install, as pyproject.toml and constraints.txt have it."""

import re
import tomllib

from tests.docs.page import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_extra_is_named():
    table = re.search(r"^\| extra \|.*\n\|[-|]+\n((?:\|.*\n)+)", README, flags=re.MULTILINE)
    named = {name for row in table[1].splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == set(PROJECT["optional-dependencies"])


def test_the_pin_of_torch_is_the_one_that_is_tested():
    (pin,) = re.findall(r"pip install torch==(\S+)", README)
    assert f"torch=={pin}" in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()


def test_the_versions_that_are_needed_are_those_of_the_project():
    python = PROJECT["requires-python"].removeprefix(">=")
    (torch,) = [one.removeprefix("torch>=") for one in PROJECT["dependencies"] if one.startswith("torch>=")]
    assert f"Python {python} or later" in README
    assert f"Any torch from {torch} on works" in README
